// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/training_log.hpp"

#include "formats/files/profile/gzip.hpp"
#include "formats/files/profile/logs/log_line.hpp"
#include "formats/files/profile/logs/log_text.hpp"
#include "formats/files/profile/table_text.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"
#include "lib/core/read_input.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

namespace tpx::formats {
namespace {

constexpr std::size_t longest_line = 16 << 20;  // such as JSON without line breaks
constexpr std::size_t chunk = 1 << 20;
constexpr std::size_t shortest_piece = 64;
constexpr std::size_t most_runs = 10'000;

// PyTorch's messages about GPUs, and Slurm's about hosts.
bool is_out_of_memory(std::string_view line) {
    constexpr std::array<std::string_view, 5> marks{"CUDA out of memory", "HIP out of memory",
                                                    "CUDA error: out of memory", "torch.OutOfMemoryError",
                                                    " oom_kill event"};
    return std::ranges::any_of(marks, [&](std::string_view mark) { return contains(line, mark); });
}

bool has_result(const LogRun& run) { return run.has_steps() || run.is_out_of_memory(); }

// read(2) for files that are not regular, such as pipes.
std::size_t read_some(int fd, std::span<char> into, const std::string& name) {
    for (;;) {
        const ssize_t count = ::read(fd, into.data(), into.size());
        if (count >= 0) return static_cast<std::size_t>(count);
        if (errno != EINTR) throw system_failure(name, errno);
    }
}

// Passes the text of a log, which may be compressed with gzip, to a reader.
class LogPieces {
public:
    LogPieces(TrainingLogReader& reader, std::string name) : reader_{reader}, name_{std::move(name)} {}

    void add(std::string_view piece) {
        if (is_first_) {
            refuse_binary(piece, name_, "training log");
            if (is_gzip(piece)) inflater_.emplace(name_);
            is_wide_ = piece.starts_with("\xFF\xFE") || piece.starts_with("\xFE\xFF");
            is_first_ = false;
        }
        if (is_wide_) return void(wide_ += piece);
        if (!inflater_) return reader_.read(piece);
        inflater_->inflate(piece, [&](std::string_view text) { reader_.read(text); });
    }

    void finish() const {
        if (is_wide_) reader_.read(table_text(wide_, name_));
        if (inflater_) inflater_->finish();
    }

private:
    TrainingLogReader& reader_;
    std::string name_;
    std::optional<GzipInflater> inflater_;
    bool is_first_ = true;
    bool is_wide_ = false;  // UTF-16, as PowerShell writes the output of programs
    std::string wide_;
};

void read_stream(LogPieces& pieces, int fd, const std::string& name) {
    std::string buffer(chunk, '\0');
    std::size_t filled = 0;  // so far; the first piece must be long enough to recognize the format
    while (const std::size_t count = read_some(fd, std::span{buffer}.subspan(filled), name)) {
        filled += count;
        if (filled < shortest_piece) continue;
        pieces.add(std::string_view{buffer}.substr(0, std::exchange(filled, 0)));
    }
    if (filled > 0) pieces.add(std::string_view{buffer}.substr(0, filled));
}

// A pipe such as /dev/fd/63, which shells pass for <(COMMAND). Opening it waits for a writer.
void read_pipe(LogPieces& pieces, const std::string& path) {
    const Fd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    if (!fd) throw system_failure(path, errno);
    read_stream(pieces, fd.get(), path);
}

void read_whole_file(LogPieces& pieces, const std::string& path) {
    const std::uint64_t size = size_of_file(path);
    const Fd fd = open_file(path, O_RDONLY);
    std::string buffer(chunk, '\0');
    for (std::uint64_t at = 0; at < size; at += chunk) {
        const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(chunk, size - at));
        read_at(fd, at, std::as_writable_bytes(std::span{buffer}.first(count)), path);
        pieces.add(std::string_view{buffer}.substr(0, count));
    }
}

}  // namespace

TrainingLogReader::TrainingLogReader() { start_run(); }

void TrainingLogReader::start_run() {
    runs_.emplace_back();
    frameworks_.clear();
    for (const auto make : {megatron_log, torchtitan_log, deepspeed_log, lightning_log, trainer_log, trainer_state_log,
                            colossal_log, torchtune_log, nanotron_log, litgpt_log, composer_log, metrics_log})
        frameworks_.push_back(make());
}

void TrainingLogReader::read(std::string_view piece) {
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
    if (is_empty_ && piece.starts_with(byte_order_mark)) piece.remove_prefix(byte_order_mark.size());
    is_empty_ = is_empty_ && piece.empty();
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
    const bool is_start = has_result(runs_.back()) && runs_.size() < most_runs &&
                          std::ranges::any_of(frameworks_, [&](const auto& log) { return log->starts_run(line); });
    if (is_start) start_run();
    LogRun& run = runs_.back();
    run.set_stream(line.stream);
    for (const auto& log : frameworks_) log->read(line, run);
    if (is_out_of_memory(line.text)) run.set_out_of_memory();
}

std::vector<LogRun> TrainingLogReader::finish() {
    // If the last line is incomplete, as in the log of a running job, its last number may lack digits.
    while (!line_.empty() && (is_digit(line_.back()) || contains(".,eE+-", line_.substr(line_.size() - 1))))
        line_.pop_back();
    end_line();
    std::vector<LogRun> distinct;
    for (LogRun& run : runs_) {
        if (!has_result(run) && runs_.size() > 1) continue;
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
    return {std::string{file}, reader.finish(), reader.is_empty()};
}

TrainingLog read_training_log(const std::string& path) {
    TrainingLogReader reader;
    LogPieces pieces{reader, input_name(path)};
    if (path == "-")
        read_stream(pieces, STDIN_FILENO, input_name(path));
    else if (path_kind(path) == PathKind::other)
        read_pipe(pieces, path);
    else
        read_whole_file(pieces, path);
    pieces.finish();
    return {path == "-" ? "standard input" : path, reader.finish(), reader.is_empty()};
}

}  // namespace tpx::formats
