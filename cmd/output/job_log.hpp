// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <string>
#include <string_view>

namespace tpx::cli {

/// Sets the log of this process and, on rank 0, appends the event `start` to the file at `path`, a line of JSON for
/// each event. If the file is a pipe, waits for its reader. Rank 0 adds the events of the job; other ranks only add
/// their errors. An empty path opens no log. Throws Error if rank 0 cannot write the file, or if the file exists and is
/// not a log.
void open_job_log(const std::string& path);

/// Adds `event` with `fields`, a JSON object, to the log, on rank 0. If the log cannot be written, prints a note and
/// logs nothing more; the job continues.
void log_event(std::string_view event, const nlohmann::ordered_json& fields);

/// Interval between progress events: 10 s, or 0.5 s if the log is a pipe.
std::chrono::milliseconds log_interval();

/// Adds the event `note` or `error` with a text, `error` on any rank.
void log_note(std::string_view text);
void log_error(std::string_view text);

/// Adds the event `end` with the exit status of the process, on rank 0. Nothing is logged after it.
void close_job_log(int exit);

}  // namespace tpx::cli
