// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <span>
#include <string_view>
#include <vector>

/// What Keras' own classes of layers consist of.
namespace tpx::formats::hdf5 {

struct ClassVariable {
    std::string_view name;
    bool trainable = true;
};

/// The variables that a layer of class `kind` has itself, in order; nothing when that is not known, or they are not
/// `count`.
std::optional<std::vector<ClassVariable>> class_variables(std::string_view kind, const nlohmann::json& config,
                                                          std::size_t count);

/// Whether every layer of this class and configuration has some, itself or in layers of its own.
bool always_has_variables(std::string_view kind, const nlohmann::json& config);

struct ClassPart {
    std::string_view attribute;  ///< by which it is a part
    std::string_view kind;       ///< its class
};

/// The layers that one of class `kind` makes of its own, in the order in which their variables come.
std::span<const ClassPart> class_parts(std::string_view kind);

/// What an optimizer of class `kind` keeps for each trainable variable; empty when that is not known.
std::span<const std::string_view> class_slots(std::string_view kind);

}  // namespace tpx::formats::hdf5
