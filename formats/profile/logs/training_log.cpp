// SPDX-License-Identifier: Apache-2.0
#include "formats/profile/logs/training_log.hpp"

#include "formats/profile/logs/log_line.hpp"
#include "formats/profile/logs/log_text.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <span>

namespace tpx::formats {
namespace {

constexpr std::size_t longest_line = 64 * 1024;
constexpr std::size_t chunk = 1 << 20;
constexpr std::size_t most_runs = 10'000;

// PyTorch's messages about GPUs, and Slurm's about hosts.
bool is_out_of_memory(std::string_view line) {
    constexpr std::array<std::string_view, 5> marks{"CUDA out of memory", "HIP out of memory",
                                                    "CUDA error: out of memory", "torch.OutOfMemoryError",
                                                    " oom_kill event"};
    return std::ranges::any_of(marks, [&](std::string_view mark) { return contains(line, mark); });
}

bool is_worth_a_row(const LogRun& run) { return run.has_steps() || run.is_out_of_memory(); }

// read(2) for what is no regular file, such as a pipe.
std::size_t read_some(int fd, std::span<char> into) {
    for (;;) {
        const ssize_t count = ::read(fd, into.data(), into.size());
        if (count >= 0) return static_cast<std::size_t>(count);
        if (errno != EINTR) throw system_failure("standard input", errno);
    }
}

void read_standard_input(TrainingLogReader& reader) {
    std::string buffer(chunk, '\0');
    while (const std::size_t count = read_some(STDIN_FILENO, buffer))
        reader.read(std::string_view{buffer}.substr(0, count));
}

void read_whole_file(TrainingLogReader& reader, const std::string& path) {
    const std::uint64_t size = size_of_file(path);
    const Fd fd = open_file(path, O_RDONLY);
    std::string buffer(chunk, '\0');
    for (std::uint64_t at = 0; at < size; at += chunk) {
        const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(chunk, size - at));
        read_at(fd, at, std::as_writable_bytes(std::span{buffer}.first(count)), path);
        reader.read(std::string_view{buffer}.substr(0, count));
    }
}

}  // namespace

TrainingLogReader::TrainingLogReader() { start_run(); }

void TrainingLogReader::start_run() {
    runs_.emplace_back();
    frameworks_.clear();
    for (const auto make : {megatron_log, torchtitan_log, deepspeed_log, lightning_log, trainer_log})
        frameworks_.push_back(make());
}

void TrainingLogReader::read(std::string_view piece) {
    while (!piece.empty()) {
        const std::size_t end = std::min(piece.find_first_of("\n\r"), piece.size());  // bars end lines with \r
        line_ += piece.substr(0, std::min(end, longest_line - std::min(longest_line, line_.size())));
        if (end < piece.size()) end_line();
        piece.remove_prefix(std::min(end + 1, piece.size()));
    }
}

void TrainingLogReader::end_line() {
    const std::string plain = without_escapes(line_);
    line_.clear();
    if (plain.empty()) return;
    const LogLine line = parse_log_line(plain);
    const bool is_start = is_worth_a_row(runs_.back()) && runs_.size() < most_runs &&
                          std::ranges::any_of(frameworks_, [&](const auto& log) { return log->starts_run(line); });
    if (is_start) start_run();
    LogRun& run = runs_.back();
    run.set_stream(line.stream);
    for (const auto& log : frameworks_) log->read(line, run);
    if (is_out_of_memory(line.text)) run.set_out_of_memory();
}

std::vector<LogRun> TrainingLogReader::finish() {
    // Of a line that is cut off, as of a job that still runs, the last number may lack digits.
    while (!line_.empty() && (is_digit(line_.back()) || contains(".,eE+-", line_.substr(line_.size() - 1))))
        line_.pop_back();
    end_line();
    std::vector<LogRun> distinct;
    for (LogRun& run : runs_) {
        if (!is_worth_a_row(run) && runs_.size() > 1) continue;
        const auto twin =
            std::ranges::find_if(distinct, [&](const LogRun& other) { return run.has_settings_of(other); });
        if (twin == distinct.end())
            distinct.push_back(std::move(run));
        else
            twin->merge(run);
    }
    return distinct;
}

TrainingLog parse_training_log(std::string_view text, std::string_view file) {
    TrainingLogReader reader;
    reader.read(text);
    return {std::string{file}, reader.finish()};
}

TrainingLog read_training_log(const std::string& path) {
    TrainingLogReader reader;
    if (path == "-")
        read_standard_input(reader);
    else
        read_whole_file(reader, path);
    return {path == "-" ? "standard input" : path, reader.finish()};
}

}  // namespace tpx::formats
