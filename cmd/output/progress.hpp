// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/output/output.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace tpx::cli {

/// What a progress line counts.
enum class ProgressUnit { bytes, jobs, steps, fits };

/// "read 1.20 GB of 2.00 GB, 60 %, 812 MB/s, 1.00 s left", "wfs: 1200 of 2000 jobs, 60 %, 812 jobs/s, 1.00 s left" or
/// "links: 3 of 12 steps, 25 %, 9.00 s left".
std::string progress_line(std::string_view what, std::uint64_t done, std::uint64_t total, double seconds,
                          ProgressUnit counted = ProgressUnit::bytes);

/// Shows the progress of a job: on a terminal, in the last row, which the destructor erases; elsewhere, such as under
/// mpirun and srun, in a note each minute. To be used by one thread.
class Progress {
public:
    Progress(const Output& out, std::string_view what, std::uint64_t total, ProgressUnit counted = ProgressUnit::bytes);
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    ~Progress();

    /// Takes how much is done so far and, if there are several stages, which one is the slowest. Draws at most ten
    /// times a second, so it may be called at any rate.
    void update(std::uint64_t done, std::string_view slowest = {});

    /// Sets how much there is to do, if more turns up during the work.
    void set_total(std::uint64_t total) { total_ = total; }

    /// Sets the name of the work from now on.
    void rename(std::string_view what) { what_ = what; }

private:
    using Clock = std::chrono::steady_clock;

    std::string what_;
    std::uint64_t total_;
    ProgressUnit counted_;
    Clock::time_point start_ = Clock::now();
    Clock::time_point next_;
    Clock::time_point next_logged_;
    const Output& out_;
    bool on_terminal_;
    bool drawn_ = false;
};

}  // namespace tpx::cli
