// SPDX-License-Identifier: Apache-2.0
#include "cmd/output/progress.hpp"

#include "cmd/output/job_log.hpp"
#include "lib/core/units.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tpx::cli {
namespace {

std::size_t terminal_width() {
    winsize size{};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::chrono::milliseconds interval(bool on_terminal) {
    using namespace std::chrono_literals;
    return on_terminal ? 100ms : 60s;
}

}  // namespace

std::string progress_line(std::string_view what, std::uint64_t done, std::uint64_t total, double seconds,
                          ProgressUnit counted) {
    const std::string_view noun = counted == ProgressUnit::jobs   ? "jobs"
                                  : counted == ProgressUnit::fits ? "fits"
                                                                  : "steps";
    done = std::min(done, total);
    std::string line = counted == ProgressUnit::bytes
                           ? fmt::format("{} {} of {}", what, format_bytes(double(done)), format_bytes(double(total)))
                           : fmt::format("{}: {} of {} {}", what, done, total, noun);
    if (total > 0) line += fmt::format(", {:.0f} %", 100.0 * double(done) / double(total));
    if (done == 0 || seconds <= 0) return line;
    const double rate = double(done) / seconds;
    if (counted == ProgressUnit::bytes) line += ", " + format_rate(rate);
    if (counted == ProgressUnit::jobs || counted == ProgressUnit::fits)
        line += fmt::format(", {:.3g} {}/s", rate, noun);
    if (done < total) line += fmt::format(", {} left", format_seconds(double(total - done) / rate));
    return line;
}

Progress::Progress(const Output& out, std::string_view what, std::uint64_t total, ProgressUnit counted)
    : what_{what}, total_{total}, counted_{counted}, out_{out}, on_terminal_{isatty(STDERR_FILENO) != 0} {
    next_ = start_ + interval(on_terminal_);
    next_logged_ = start_ + log_interval();
}

void Progress::update(std::uint64_t done, std::string_view slowest) {
    const Clock::time_point now = Clock::now();
    if (now >= next_logged_ && counted_ == ProgressUnit::bytes) {
        next_logged_ = now + log_interval();
        log_event("progress", {{"bytes_done", done}, {"bytes", total_}, {"slowest_stage", slowest}});
    }
    if (now < next_ || !out_.is_printing() || out_.quiet()) return;
    next_ = now + interval(on_terminal_);
    std::string line =
        progress_line(what_, done, total_, std::chrono::duration<double>(now - start_).count(), counted_);
    if (!slowest.empty()) line += fmt::format(", slowest stage: {}", slowest);
    if (!on_terminal_) return out_.note("{}", line);
    line.resize(std::min(line.size(), terminal_width() - 1));  // a line that wraps cannot be erased
    std::fputs(("\r\x1b[K" + line).c_str(), stderr);
    std::fflush(stderr);
    drawn_ = true;
}

Progress::~Progress() {
    if (drawn_) std::fputs("\r\x1b[K", stderr);
}

}  // namespace tpx::cli
