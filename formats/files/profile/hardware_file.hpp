// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/hardware.hpp"

#include <string>
#include <string_view>

namespace tpx::formats {

/// What a figure of a file can be: a byte a second or a day for a message is what machines that stand still come to.
struct FigureRange {
    double least, most;
    std::string_view unit;

    bool has(double figure) const { return figure >= least && figure <= most; }
};
inline constexpr FigureRange rates_of_files{1, 1e15, "bytes per second"};
inline constexpr FigureRange times_of_files{1e-10, 86400, "seconds"};

/// The TOML that `tpx profile hardware` writes: hosts as parse_hosts reads them, those of a class together, and under
/// [measured] all that was measured. Links are written as a matrix where they are uneven, or few. parse_hardware()
/// reads it whatever was measured: figures that no file can have count as not measured. Names of hosts are such as
/// hosts files can say.
std::string hardware_text(const Hardware& hardware);

/// What `text` says: a file that hardware_text wrote, or any that parse_hosts reads, whose rates then have no spread.
/// Links that are not in it are as the typical one of their class. Throws Error (usage) "FILE:LINE: cause" for anything
/// that is not known, does not belong to the hosts, or cannot be right.
Hardware parse_hardware(std::string_view text, std::string_view file);

/// parse_hardware() of a file. Throws Error when it cannot be read.
Hardware read_hardware(const std::string& path);

}  // namespace tpx::formats
