// SPDX-License-Identifier: Apache-2.0
#include "cmd/output/job_log.hpp"

#include "cmd/output/output.hpp"
#include "cmd/version.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/host_name.hpp"
#include "lib/core/path.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string& log_path() {
    static std::string path;
    return path;
}

constexpr std::string_view first_key = "{\"time\":";

/// Throws Error if `path` is a nonempty regular file but not a log, so that a mistyped path does not damage a
/// checkpoint.
void require_log(const std::string& path) {
    if (!path_is_file(path) || size_of_file(path) == 0) return;
    std::string begin(std::min<std::uint64_t>(size_of_file(path), first_key.size()), '\0');
    read_at(open_file(path, O_RDONLY), 0, std::as_writable_bytes(std::span{begin}), path);
    if (begin != first_key) throw failure("{}: exists and is not a log of tpx; choose another file for --log", path);
}

/// "2026-11-26T10:58:01.250Z", in UTC.
std::string utc_now() {
    const auto now = std::chrono::system_clock::now();
    const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
    const auto milliseconds =
        std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
    std::tm utc{};
    gmtime_r(&seconds, &utc);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                       utc.tm_hour, utc.tm_min, utc.tm_sec, milliseconds);
}

/// The log if it is a pipe, open from the first event to the last; null if the log is a file, which each event opens.
Fd& log_pipe() {
    static Fd pipe;
    return pipe;
}

bool is_pipe(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode);
}

void close_log() {
    log_pipe() = Fd{};
    log_path().clear();
}

/// If the log is a pipe: whether to wait for its reader, or to fail without one.
enum class LogReader { awaited, present };

/// Opens the log. Throws Error if it cannot be written, or if it is a pipe that has no reader and `reader` is
/// `present`.
Fd opened_log(LogReader reader) {
    const std::string& path = log_path();
    const int no_wait = reader == LogReader::present ? O_NONBLOCK : 0;
    Fd fd = open_file(path, O_WRONLY | O_APPEND | O_CREAT | no_wait, 0666);
    if (no_wait && ::fcntl(fd.get(), F_SETFL, O_APPEND) != 0) throw system_failure(path, errno);
    return fd;
}

/// Like write(2), but a pipe without a reader causes the error EPIPE and no signal.
ssize_t write_without_signal(const Fd& fd, std::string_view text) {
    sigset_t pipe, before;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    const ssize_t written = ::write(fd.get(), text.data(), text.size());
    const int error = errno;
    constexpr timespec no_wait{};
    if (written < 0 && error == EPIPE) sigtimedwait(&pipe, nullptr, &no_wait);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    errno = error;
    return written;
}

// Writes each line in one call, so that lines of several processes do not mix. Opens a file for each event, so that the
// file can be rotated. Keeps a pipe open, so that its reader sees the end of the log only after the last event.
void append_event(std::string_view event, const Json& fields, LogReader reader = LogReader::present) {
    Json line{{"time", utc_now()}, {"host", host_name()}, {"pid", getpid()}, {"event", event}};
    line.update(fields);
    const std::string text = line.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
    const std::string& path = log_path();
    Fd file;
    if (!log_pipe()) file = opened_log(reader);
    if (file && is_pipe(path)) log_pipe() = std::move(file);
    const ssize_t written = write_without_signal(log_pipe() ? log_pipe() : file, text);
    if (written < 0) throw system_failure(path, errno);
    if (static_cast<std::size_t>(written) != text.size()) throw failure("{}: no space left", path);
}

void append_event_if_possible(std::string_view event, const Json& fields) {
    if (log_path().empty()) return;
    try {
        append_event(event, fields);
    } catch (const Error& error) {
        close_log();
        Output{false, false}.note("{}; the log ends here", error.what());
    }
}

}  // namespace

void open_job_log(const std::string& path) {
    log_path() = path;
    if (path.empty() || !is_first_rank()) return;
    const char* job = std::getenv("SLURM_JOB_ID");
    try {
        require_log(path);
        append_event("start",
                     {{"schema", "tpx.log/1"}, {"version", version_text}, {"slurm_job", job ? Json(job) : Json()}},
                     LogReader::awaited);
    } catch (const Error&) {
        close_log();
        throw;
    }
}

void log_event(std::string_view event, const Json& fields) {
    if (is_first_rank()) append_event_if_possible(event, fields);
}

std::chrono::milliseconds log_interval() {
    using namespace std::chrono_literals;
    return is_pipe(log_path()) ? 500ms : 10s;
}

void log_note(std::string_view text) { log_event("note", {{"text", text}}); }

void log_error(std::string_view text) { append_event_if_possible("error", {{"text", text}}); }

void close_job_log(int exit) {
    log_event("end", {{"exit", exit}});
    close_log();
}

}  // namespace tpx::cli
