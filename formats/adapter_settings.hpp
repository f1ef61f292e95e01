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
    std::int64_t rank = 8;         ///< of targets without a rank of their own
    double alpha = 8;              ///< the same
    bool rank_stabilized = false;  ///< use_rslora: alpha is divided by the square root of the rank
    bool dora = false;
    bool transposed = false;               ///< fan_in_fan_out: the base stores its weights as [in, out]
    std::vector<std::string> targets;      ///< target_modules; one entry if it is a pattern
    Patterns ranks;                        ///< rank_pattern; the first that matches a module counts
    Patterns alphas;                       ///< alpha_pattern, the same
    std::vector<std::string> unmergeable;  ///< settings in use whose effect on a merge tpx does not compute

    /// The factor of B * A for `module`. Throws Error for a pattern that matches_module() does not support.
    double scale(std::string_view module, std::int64_t own_rank) const;
    /// The rank that the tensors of `module` must have. Throws Error like scale().
    std::int64_t rank_of(std::string_view module) const;
};

/// Whether `text`, PEFT's regular expression, matches a module's name or its end behind a dot. Understands names, `.`
/// and `\.`, `.*`, `\d+` and `^`; throws Error "'PATTERN' is a regular expression that tpx does not support" for
/// others.
bool matches_module(std::string_view pattern, std::string_view module);

/// Reads adapter_config.json at `path`. Throws Error "FILE: cause" if it is not a LoRA adapter's.
AdapterSettings read_adapter_settings(const std::filesystem::path& path);

}  // namespace tpx::formats
