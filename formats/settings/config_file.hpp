// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/config.hpp"

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace tpx::formats {

/// The largest configuration file that is read.
inline constexpr std::uint64_t largest_config = std::uint64_t{16} << 20;

/// Under this key the text of a config.json stands among settings, for checkpoints that have none.
inline constexpr const char* config_json_key = "config.json";

/// Whether `config` is that of a model in transformers, in full: it names model_type and architectures.
bool names_model(const Config& config);

/// The scalars of a JSON object's text, and its lists of whole numbers or words as text "0,1,1"; scalars of objects in
/// it are called "outer.inner", and "outer.inner.innermost" two objects deep, and the length of a list "list.count".
/// What is nested deeper and other lists are left out. Throws Error when it is no JSON object.
Config parse_config_json(std::string_view json);

/// The same of TOML text. Throws Error "line N: ...".
Config parse_config_toml(std::string_view toml);

/// The same of a model's configuration file: a config.json, or TOML with the same keys. Throws Error "FILE: ...".
Config read_config_file(const std::filesystem::path& file);

/// One setting "KEY=VALUE" as a configuration value: true, false, a whole number, a real number, else text.
/// Throws Error (usage) when there is no '=' or no key.
void add_setting(Config& config, std::string_view setting);

}  // namespace tpx::formats
