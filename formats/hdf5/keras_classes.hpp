// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <span>
#include <string_view>
#include <vector>

/// The variables and parts of Keras' own layer classes.
namespace tpx::formats::hdf5 {

struct ClassVariable {
    std::string_view name;
    bool trainable = true;
};

/// The variables of a layer of class `kind`, without those of its parts, in order; unset if they are unknown or there
/// are not `count`.
std::optional<std::vector<ClassVariable>> class_variables(std::string_view kind, const nlohmann::json& config,
                                                          std::size_t count);

/// Whether every layer of this class and configuration has variables, itself or in its parts.
bool always_has_variables(std::string_view kind, const nlohmann::json& config);

struct ClassPart {
    std::string_view attribute;  ///< that contains the part
    std::string_view kind;       ///< the part's class
};

/// The layers that a layer of class `kind` creates as parts, in the order of their variables.
std::span<const ClassPart> class_parts(std::string_view kind);

/// The state that an optimizer of class `kind` stores for each trainable variable; empty if unknown.
std::span<const std::string_view> class_slots(std::string_view kind);

}  // namespace tpx::formats::hdf5
