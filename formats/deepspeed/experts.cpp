// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/optimizer.hpp"
#include "lib/core/error.hpp"

#include <charconv>

namespace tpx::formats::deepspeed {
namespace {

struct ExpertName {
    std::string_view before;  ///< with expert_marker
    Index number = 0;
    std::string_view after;
};

std::optional<ExpertName> parse(std::string_view name) {
    const auto at = name.find(expert_marker);
    if (at == name.npos) return std::nullopt;
    ExpertName parsed{.before = name.substr(0, at + expert_marker.size())};
    const std::string_view rest = name.substr(at + expert_marker.size());
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), parsed.number);
    if (error != std::errc{} || parsed.number < 0 || parsed.number > (1 << 20)) return std::nullopt;
    parsed.after = rest.substr(static_cast<std::size_t>(end - rest.data()));
    return parsed;
}

}  // namespace

std::string global_expert_name(const std::string& name, Index expert_rank, Index experts) {
    const auto parsed = parse(name);
    if (!parsed || experts == 0) return name;
    return fmt::format("{}{}{}", parsed->before, parsed->number + expert_rank * experts, parsed->after);
}

Index local_experts(const ParameterGroup& group, const std::string& name) {
    const auto wanted = parse(name);
    if (!wanted) return 0;
    Index count = 0;
    for (const auto& [other, shape] : group) {
        const auto parsed = parse(other);
        if (parsed && parsed->before == wanted->before) count = std::max(count, parsed->number + 1);
    }
    return count;
}

}  // namespace tpx::formats::deepspeed
