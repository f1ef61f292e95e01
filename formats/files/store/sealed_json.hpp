// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>

namespace tpx::formats {

/// The text of a JSON file that contains "schema", then `members`, then a checksum of both.
std::string sealed(std::string_view schema, const nlohmann::ordered_json& members);

/// The members in `file`, whose text sealed() made. Throws Error if the file cannot be read, is damaged, or has another
/// schema.
nlohmann::ordered_json read_sealed(std::string_view schema, const std::filesystem::path& file);

/// The same for a text; `file` is its path in errors.
nlohmann::ordered_json unsealed(std::string_view schema, const std::string& text, const std::filesystem::path& file);

}  // namespace tpx::formats
