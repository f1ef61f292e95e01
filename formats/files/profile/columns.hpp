// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/profile/table.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx::formats {

/// Where one quantity of a run is found.
struct ColumnSource {
    std::string column;  ///< empty: `value` is the value in each row
    std::string value;
    std::string unit;                           ///< of the numbers in the column; empty: the quantity's own
    std::vector<std::string> digits;            ///< not empty: a cell of digits has one of these keys for each digit
    std::map<std::string, std::string> values;  ///< what cells stand for; a cell that is not in it stands for itself
};

/// Which column holds what, from `--columns FILE` or by the standard names.
struct ColumnMap {
    std::map<std::string, ColumnSource> sources;             ///< by quantity: "seconds", "placement", "plan", "dp", ...
    std::vector<std::pair<std::string, std::string>> where;  ///< only rows with these values in these columns count
    std::vector<std::string> ignored;                        ///< columns that are not used, whatever their names
    bool is_default = false;                                 ///< made by default_columns()
};

/// The quantities that a run can have: "plan", "dp", ..., "seconds", "memory". See tpx-throughput(5).
const std::vector<std::string>& run_quantities();

/// Each quantity under its own name, or else under a name that common frameworks give it: see known_alias().
ColumnMap default_columns(const Table& table);

/// `map`, and the columns of `table` that are named like a quantity which `map` does not mention, each as that
/// quantity; without a second time or rate, and without a second description of the placement.
ColumnMap with_standard_columns(ColumnMap map, const Table& table);

/// The mapping that TOML `text` describes. Throws Error (usage) "FILE:LINE: cause".
ColumnMap parse_columns(std::string_view text, std::string_view file);

}  // namespace tpx::formats
