// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/hardware.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace tpx::cli {

class Output;

/// Prints hosts by class, classes of links, a map of links with the slow ones named, and GPUs.
void print_hardware(const Hardware& hardware, Output& out);

/// A map of `rows`, by rate, as a terminal shows it: a row a line behind its name, darker is faster, "·" is not
/// measured. More than 48 rows share lines and columns, which then show the slowest of theirs.
std::string heat_map(const std::vector<std::string>& names, const std::vector<std::vector<double>>& rows);

/// What `hardware` says, with what is slower than it was, as --json prints it.
nlohmann::ordered_json hardware_json(const Hardware& hardware, const std::vector<DegradedRate>& slower);

/// A page for browsers that needs no other file; `json` is what hardware_json() made.
std::string hardware_html(const nlohmann::ordered_json& json);

}  // namespace tpx::cli
