// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/config.hpp"

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace tpx::formats {

/// The largest configuration file that is read.
inline constexpr std::uint64_t max_config_bytes = std::uint64_t{16} << 20;

/// The key of the setting that contains the text of a config.json, for checkpoints that lack one.
inline constexpr const char* config_json_key = "config.json";

/// Whether `config` is the complete configuration of a transformers model: it contains model_type and architectures.
bool names_model(const Config& config);

/// Parses a JSON object. Returns its scalars, and its lists of whole numbers or words as text "0,1,1". Settings of
/// nested objects are called "outer.inner" and "outer.inner.innermost", and the length of a list "list.count". Omits
/// deeper objects and other lists. Throws Error if `json` is not a JSON object.
Config parse_config_json(std::string_view json);

/// Parses the top-level settings of TOML text in the same way. Throws Error "line N: ...".
Config parse_config_toml(std::string_view toml);

/// Reads a model's configuration file: a config.json, or TOML with the same keys. Throws Error "FILE: ...".
Config read_config_file(const std::filesystem::path& file);

/// Adds the setting "KEY=VALUE" to `config`; VALUE is true, false, a whole number, a real number, or else text. Throws
/// Error (usage) if there is no '=' or no key.
void add_setting(Config& config, std::string_view setting);

}  // namespace tpx::formats
