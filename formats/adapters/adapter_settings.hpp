// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx::formats {

/// The file beside an adapter's tensors that contains its settings.
inline constexpr const char* adapter_config_name = "adapter_config.json";

/// The settings of a LoRA adapter in PEFT's adapter_config.json.
struct AdapterSettings {
    using Patterns = std::vector<std::pair<std::string, double>>;

    std::string base;              ///< base_model_name_or_path; empty: unknown
    std::int64_t rank = 8;         ///< of modules that no pattern of `ranks` matches
    double alpha = 8;              ///< of modules that no pattern of `alphas` matches
    bool rank_stabilized = false;  ///< use_rslora: alpha is divided by the square root of the rank
    bool dora = false;
    bool transposed = false;               ///< fan_in_fan_out: the base stores its weights as [in, out]
    std::vector<std::string> targets;      ///< target_modules; one entry if it is a pattern
    std::vector<std::string> parameters;   ///< target_parameters: stacks of experts, "mlp.experts.gate_up_proj"
    Patterns ranks;                        ///< rank_pattern; the first pattern that matches a module applies
    Patterns alphas;                       ///< alpha_pattern, the same
    std::vector<std::string> unmergeable;  ///< settings in use whose effect on a merge tpx does not compute

    /// The factor of B * A for `module`. Throws Error for a pattern that matches_module() does not support.
    double scale(std::string_view module, std::int64_t own_rank) const;
    /// The rank that the tensors of `module` must have. Throws Error like scale().
    std::int64_t rank_of(std::string_view module) const;
};

/// Whether `pattern`, a regular expression of PEFT, matches a module's name or the end of the name after a dot.
/// Throws Error "'PATTERN' is a regular expression that tpx does not support" for what Python and C++ read otherwise,
/// such as named groups and lookbehind.
bool matches_module(std::string_view pattern, std::string_view module);

/// Reads adapter_config.json at `path`. Throws Error "FILE: cause" if it does not describe a LoRA adapter.
AdapterSettings read_adapter_settings(const std::filesystem::path& path);

}  // namespace tpx::formats
