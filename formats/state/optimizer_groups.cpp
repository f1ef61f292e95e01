// SPDX-License-Identifier: Apache-2.0
#include "formats/state/optimizer_groups.hpp"

#include "formats/encodings/archive_at.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace tpx::formats {
namespace {

using torch::Kind;
using torch::Value;

/// The root and number of the group whose parameters the object `name` lists; unset for other objects.
std::optional<std::pair<std::string, int>> group_of(std::string_view name) {
    constexpr std::string_view groups = ".param_groups.";
    constexpr std::string_view params = ".params";
    const std::size_t at = name.rfind(groups);
    if (at == name.npos || !name.ends_with(params)) return std::nullopt;
    const std::string_view digits =
        name.substr(at + groups.size()).substr(0, name.size() - at - groups.size() - params.size());
    int number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc{} || end != digits.data() + digits.size() || number < 0) return std::nullopt;
    return std::pair{std::string{name.substr(0, at)}, number};
}

void read_params(Value list, OptimizerGroup& group) {
    for (const Value item : list.items()) {
        group.numbered |= item.is(Kind::integer);
        group.params.push_back(item.is(Kind::integer) ? std::to_string(item.as_int()) : std::string{item.as_string()});
    }
}

}  // namespace

std::vector<OptimizerGroup> optimizer_groups(const Catalogue& catalogue) {
    std::map<std::pair<std::string, int>, const Object*> found;
    for (const Object& object : catalogue.objects)
        if (auto group = group_of(object.name)) found.emplace(std::move(*group), &object);
    std::vector<OptimizerGroup> groups;
    for (const auto& [key, object] : found) {
        OptimizerGroup group{key.first, fmt::format("{}.param_groups.{}.", key.first, key.second), {}};
        with_archive(catalogue, *object, [&](const torch::Archive& archive) { read_params(archive.root(), group); });
        groups.push_back(std::move(group));
    }
    return groups;
}

}  // namespace tpx::formats
