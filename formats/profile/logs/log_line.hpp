// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace tpx::formats {

/// A line of a log, taken apart. All parts refer to the text that was taken apart.
struct LogLine {
    std::string_view text;     ///< without what launchers and loggers put before it: ranks, hosts, times
    std::string_view stream;   ///< the rank that a launcher names ("[rank3]:", "3: "); empty: none
    std::string_view origin;   ///< where DeepSpeed's logger says it was called, "config.py:678:print"; empty: not said
    std::string_view key;      ///< of "key ..... value", "key: value" or "\"key\": value"; empty: the line is none
    std::string_view value;    ///< without quotes and the comma behind it
    bool is_argument = false;  ///< the form is "key ..... value", in which Megatron-LM and DeepSpeed list all settings
};

/// Takes apart a line without colors and line end.
LogLine parse_log_line(std::string_view line);

}  // namespace tpx::formats
