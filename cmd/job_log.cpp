// SPDX-License-Identifier: Apache-2.0
#include "cmd/job_log.hpp"

#include "cmd/output.hpp"
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
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <span>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string& log_path() {
    static std::string path;
    return path;
}

constexpr std::string_view first_key = "{\"time\":";

/// A regular file that is not empty must be a log: a mistyped path must not damage a checkpoint.
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

// In one call, so that lines of several processes do not mix. The file is opened each time, so that it may be rotated.
void append_event(std::string_view event, const Json& fields) {
    Json line{{"time", utc_now()}, {"host", host_name()}, {"pid", getpid()}, {"event", event}};
    line.update(fields);
    const std::string text = line.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
    const std::string& path = log_path();
    const Fd fd = open_file(path, O_WRONLY | O_APPEND | O_CREAT, 0666);
    const ssize_t written = ::write(fd.get(), text.data(), text.size());
    if (written < 0) throw system_failure(path, errno);
    if (static_cast<std::size_t>(written) != text.size()) throw failure("{}: no space left", path);
}

void append_event_if_possible(std::string_view event, const Json& fields) {
    if (log_path().empty()) return;
    try {
        append_event(event, fields);
    } catch (const Error& error) {
        log_path().clear();
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
                     {{"schema", "tpx.log/1"}, {"version", version_text}, {"slurm_job", job ? Json(job) : Json()}});
    } catch (const Error&) {
        log_path().clear();
        throw;
    }
}

void log_event(std::string_view event, const Json& fields) {
    if (is_first_rank()) append_event_if_possible(event, fields);
}

std::chrono::milliseconds log_interval() {
    using namespace std::chrono_literals;
    struct stat status {};
    const bool is_pipe = ::stat(log_path().c_str(), &status) == 0 && S_ISFIFO(status.st_mode);
    return is_pipe ? 500ms : 10s;
}

void log_note(std::string_view text) { log_event("note", {{"text", text}}); }

void log_error(std::string_view text) { append_event_if_possible("error", {{"text", text}}); }

void close_job_log(int exit) {
    log_event("end", {{"exit", exit}});
    log_path().clear();
}

}  // namespace tpx::cli
