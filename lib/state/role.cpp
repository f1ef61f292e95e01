// SPDX-License-Identifier: Apache-2.0
#include "lib/state/role.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <array>

namespace tpx {
namespace {

constexpr std::array<std::string_view, 14> names{
    "copy",      "exp_avg",   "exp_avg_sq", "extra", "master", "max_exp_avg_sq", "momentum_buffer",
    "optimizer", "quantized", "state",      "step",  "sum",    "virtual_node",   "weight"};
static_assert(names.size() == static_cast<std::size_t>(Role::weight) + 1);

}  // namespace

std::string_view name(Role role) { return names[static_cast<std::size_t>(role)]; }

std::optional<Role> role_by_name(std::string_view text) {
    const auto found = std::ranges::find(names, text);
    if (found == names.end()) return std::nullopt;
    return static_cast<Role>(found - names.begin());
}

std::vector<Role> roles_by_name(std::span<const std::string> texts) {
    std::vector<Role> roles;
    for (const std::string& text : texts) {
        const auto role = role_by_name(text);
        if (!role) throw failure("'{}' is not a role of a tensor (roles: {})", text, fmt::join(names, ", "));
        roles.push_back(*role);
    }
    return roles;
}

std::vector<std::string> names_of(std::span<const Role> roles) {
    std::vector<std::string> texts;
    for (const Role role : roles) texts.emplace_back(name(role));
    return texts;
}

}  // namespace tpx
