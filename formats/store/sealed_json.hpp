// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>

namespace tpx::formats {

/// `members` as the text of a file, with "schema" before them and a checksum of all of it behind them.
std::string sealed(std::string_view schema, const nlohmann::ordered_json& members);

/// The members that sealed() wrote to `file`. Throws Error when the file cannot be read, is damaged, or has another
/// schema.
nlohmann::ordered_json read_sealed(std::string_view schema, const std::filesystem::path& file);

/// The same of a text; `file` names it in errors.
nlohmann::ordered_json unsealed(std::string_view schema, const std::string& text, const std::filesystem::path& file);

}  // namespace tpx::formats
