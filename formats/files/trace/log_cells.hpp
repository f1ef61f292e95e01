// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/job.hpp"

#include <optional>
#include <string>
#include <string_view>

// Cells of job logs, in the forms of several schedulers.
namespace tpx::formats {

/// Whether `text` is one of the words that schedulers write for a missing time, or empty.
bool is_missing_time(std::string_view text);

/// Whether `text` is a list such as Slurm's "billing=16,cpu=16,gres/gpu:a100=8,mem=64G".
bool is_resource_list(std::string_view text);

/// The number of `resource` in such a list; with types, the sum over them. Throws Error if it is not a number.
double slurm_amount(std::string_view list, std::string_view resource);

/// The first type of GPU in such a list; empty if there is none.
std::string_view slurm_gpu_type(std::string_view list);

/// The seconds of a unit of time, named by a word in lower case or its first letters; 0 for another word.
double seconds_of_unit(std::string_view word);

/// A number of units of `unit` seconds, [DAYS-]HH:MM:SS as Slurm writes how long a job ran, or words such as "2h30m",
/// "1 day, 2:03:04" and "PT2H". Throws Error for other text, and for more than max_trace_seconds.
Time parse_duration(std::string_view text, double unit = 1);

/// The unit of a number that counts since 1970 what can only be milliseconds, microseconds or nanoseconds; otherwise 1.
double unit_of_moment(double value);

/// A number of units of `unit` seconds, or a date; nothing if is_missing_time(). A `unit` of 1 means that of
/// unit_of_moment(). Throws Error for other text.
std::optional<Time> parse_moment(std::string_view text, double unit = 1);

}  // namespace tpx::formats
