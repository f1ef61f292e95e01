// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/profile/table.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// The rows of `text`, which is an array of objects; an object with such an array as `runs` or as its only array
/// of objects, whose other members all rows have; what pandas writes, by column or by row; or lines of objects. Members
/// of an object inside a row become columns "outer.inner"; an array as `placement` becomes "8+8+4". Throws Error
/// "FILE:ROW: cause"; with `bad`, what is wrong with one of the lines is added there instead, and the line left out.
Table parse_json_table(std::string_view text, std::string_view file, std::vector<std::string>* bad);

}  // namespace tpx::formats
