// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tpx {

/// A size in bytes: "4096", "64MiB", "64M" (binary, as for dd), "1.5GB" (decimal), in upper or lower case, with or
/// without a space before the unit. Fractions are rounded to the nearest byte. Throws Error (usage) for anything else,
/// or above 2^63-1.
std::uint64_t parse_bytes(std::string_view text);

/// A rate in bytes per second: "25 GB/s", "25 GiB/s", "200 Gbit/s", "200 Gb/s", "200 Gbps", or bytes without a unit (at
/// least 1000). A lowercase b means bits. Throws Error (usage) for anything else, or when it is not positive and
/// finite.
double parse_rate(std::string_view text);

/// Three significant digits in decimal units: "0 B", "999 B", "1.50 GB", "96.3 GB".
std::string format_bytes(double bytes);
std::string format_size(std::uint64_t bytes);

/// The same per second: "25.0 GB/s".
std::string format_rate(double bytes_per_second);

/// "0 s", "12.3 us", "450 ms", "1.50 s", "2 min 05 s", "3 h 20 min".
std::string format_seconds(double seconds);

}  // namespace tpx
