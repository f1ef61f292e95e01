// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/profile/table.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// The rows of a JSON table: an array of objects; an object that has such an array as `runs` or as its only array of
/// objects, and whose other members apply to every row; the output of pandas' to_json(), by column or by row; or one
/// object per line. A member of an object in a row becomes column "outer.inner"; the array `placement` becomes "8+8+4".
/// Throws Error "FILE:ROW: cause". With `bad`, errors of lines that are not JSON are added there, and the lines left
/// out.
Table parse_json_table(std::string_view text, std::string_view file, std::vector<std::string>* bad);

}  // namespace tpx::formats
