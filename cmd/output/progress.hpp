// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/output/output.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace tpx::cli {

/// What is counted.
enum class Counted { bytes, jobs, steps };

/// "read 1.20 GB of 2.00 GB, 60 %, 812 MB/s, 1.00 s left", "wfs: 1200 of 2000 jobs, 60 %, 812 jobs/s, 1.00 s left" or
/// "links: 3 of 12 steps, 25 %, 9.00 s left".
std::string progress_line(std::string_view what, std::uint64_t done, std::uint64_t total, double seconds,
                          Counted counted = Counted::bytes);

/// Says how far a job is: on a terminal in its last row, where the line is gone when this object is; elsewhere, as
/// under mpirun and srun, in a note each minute. Belongs to one thread.
class Progress {
public:
    Progress(const Output& out, std::string_view what, std::uint64_t total, Counted counted = Counted::bytes);
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    ~Progress();

    /// What is done so far, and the stage that takes longest, if there are several; draws ten times a second at most,
    /// so it may be called as often as one likes.
    void update(std::uint64_t done, std::string_view slowest = {});

    /// Names what is done from now on.
    void rename(std::string_view what) { what_ = what; }

private:
    using Clock = std::chrono::steady_clock;

    std::string what_;
    std::uint64_t total_;
    Counted counted_;
    Clock::time_point start_ = Clock::now();
    Clock::time_point next_;
    Clock::time_point next_logged_;
    const Output& out_;
    bool on_terminal_;
    bool drawn_ = false;
};

}  // namespace tpx::cli
