// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace tpx::formats {

/// A parsed line of a log. All parts refer to the text that was parsed.
struct LogLine {
    std::string_view whole;   ///< the line as it was parsed
    std::string_view text;    ///< without what launchers and loggers put before it: ranks, hosts, times
    std::string_view stream;  ///< the rank that a launcher names ("[rank3]:", "3: "); empty: none
    std::string_view origin;  ///< the caller that DeepSpeed's logger prints, "config.py:678:print"; or empty
    std::string_view
        key;  ///< of "key ..... value", "key: value" or "\"key\": value"; empty if the line is not a setting
    std::string_view value;    ///< without quotes and the comma behind it
    bool is_argument = false;  ///< the form is "key ..... value", in which Megatron-LM and DeepSpeed list all settings
};

/// Parses a line without colors and line end.
LogLine parse_log_line(std::string_view line);

}  // namespace tpx::formats
