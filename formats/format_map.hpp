// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <span>
#include <string>
#include <string_view>

namespace tpx::formats {

/// What tpx does with a format: a row of the map in README.md and tpx-formats(7).
struct FormatEntry {
    /// Out of what it is written, if at all.
    enum class Written : std::uint8_t { no, from_any, from_deepspeed, from_keras };

    Format format;
    std::string_view title;
    Written written = Written::from_any;
    bool optimizer = false;  ///< moments, masters and steps are known as such, and kept
    bool state = false;      ///< what is no tensor is shown and kept: args, schedulers, RNG, counters, param_groups
    bool resharded = false;  ///< its output is cut over ranks
};

/// All formats, each once, in the order in which people should read of them.
std::span<const FormatEntry> format_map();

std::string_view text(FormatEntry::Written written);

/// The map as README.md has it.
std::string format_map_markdown();

}  // namespace tpx::formats
