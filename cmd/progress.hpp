// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/output.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace tpx::cli {

/// "read 1.20 GB of 2.00 GB, 60 %, 812 MB/s, 1.00 s left".
std::string progress_line(std::string_view what, std::uint64_t done, std::uint64_t total, double seconds);

/// One line on the terminal's last row that says how far a job is; nothing where standard error is no terminal.
/// Belongs to one thread. The line is gone when this object is.
class Progress {
public:
    Progress(const Output& out, std::string_view what, std::uint64_t total_bytes);
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    ~Progress();

    /// Bytes that are done so far; draws ten times a second at most, so it may be called as often as one likes.
    void update(std::uint64_t done);

private:
    using Clock = std::chrono::steady_clock;

    std::string what_;
    std::uint64_t total_;
    Clock::time_point start_ = Clock::now();
    Clock::time_point next_ = start_;
    bool shown_;
    bool drawn_ = false;
};

}  // namespace tpx::cli
