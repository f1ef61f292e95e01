// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// What a tensor of a training state is to its parameter. In alphabetical order, the order of rows in tables.
enum class Role : std::uint8_t {
    copy,             ///< a copy of another tensor of the state
    exp_avg,          ///< Adam's first moment
    exp_avg_sq,       ///< Adam's second moment
    extra,            ///< neither a parameter nor optimizer state: RNG state, counters
    master,           ///< the weight in the precision in which it is updated
    max_exp_avg_sq,   ///< the largest second moment (amsgrad)
    momentum_buffer,  ///< SGD's momentum
    optimizer,        ///< a variable of an optimizer of unknown kind
    quantized,        ///< a weight stored in blocks that share scales
    state,            ///< other optimizer state
    step,             ///< how many steps an optimizer has taken
    sum,              ///< Adagrad's sum of squares
    virtual_node,     ///< state of a virtual node
    weight
};

/// "weight", "exp_avg", ...: the name of the enumerator, valid for the whole program.
std::string_view name(Role role);

/// The role with this name; nothing for any other text.
std::optional<Role> role_by_name(std::string_view text);

/// The roles with these names. Throws Error, listing the valid names, if a text is not one of them.
std::vector<Role> roles_by_name(std::span<const std::string> texts);

/// The names of `roles`.
std::vector<std::string> names_of(std::span<const Role> roles);

/// Whether tensors of this role are optimizer state, which ZeRO shards across replicas.
constexpr bool is_optimizer_state(Role role) {
    return role != Role::weight && role != Role::quantized && role != Role::extra && role != Role::copy &&
           role != Role::virtual_node;
}

}  // namespace tpx

/// By name.
template <>
struct fmt::formatter<tpx::Role> : fmt::formatter<std::string_view> {
    template <class Context>
    auto format(tpx::Role role, Context& context) const {
        return fmt::formatter<std::string_view>::format(tpx::name(role), context);
    }
};
