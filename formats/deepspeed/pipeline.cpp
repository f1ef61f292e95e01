// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace tpx::formats::deepspeed {
namespace {

/// The first item of each of `count` parts, and the end. Parts of the `items` are as equal as possible, longer ones
/// first.
std::vector<int> uniform_parts(int items, int count) {
    std::vector<int> parts(static_cast<std::size_t>(count) + 1);
    for (int p = 0; p <= count; ++p)
        parts[p] = items <= count ? std::min(p, items) : p * (items / count) + std::min(p, items % count);
    return parts;
}

int part_of(std::span<const int> parts, int item) {
    int part = 0;
    while (part + 2 < std::ssize(parts) && parts[part + 1] <= item) ++part;
    return part;
}

}  // namespace

std::optional<int> layer_of(std::string_view name) {
    int number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    constexpr int most = 1024;  // bounds the cost of balancing
    if (error != std::errc{} || number < 0 || number >= most) return std::nullopt;
    if (end == name.data() + name.size() || *end != '.') return std::nullopt;
    return number;
}

bool is_tied(std::string_view name) { return name.starts_with("tied_modules."); }

std::vector<int> balanced_parts(std::span<const Index> weights, int count) {
    const int n = static_cast<int>(weights.size());
    if (n <= count) return uniform_parts(n, count);
    constexpr Index none = std::numeric_limits<Index>::max();
    struct Best {
        Index cost = none, most = none, least = none;
        int begin = 0;
    };
    // best[i][j]: the best split of the first i items into j parts; the last part starts at `begin`.
    std::vector<std::vector<Best>> best(n + 1, std::vector<Best>(count + 1));
    best[0][0] = {0, 0, none, 0};
    std::vector<Index> sum(n + 1, 0);
    for (int i = 0; i < n; ++i) sum[i + 1] = sum[i] + weights[i];
    for (int i = 1; i <= n; ++i) {
        for (int j = 1; j <= std::min(i, count); ++j) {
            for (int k = 0; k < i; ++k) {
                const Best& before = best[k][j - 1];
                if (before.cost == none) continue;
                const Index most = std::max(before.most, sum[i] - sum[k]);
                const Index least = std::min(before.least, sum[i] - sum[k]);
                if (best[i][j].cost >= most - least) best[i][j] = {most - least, most, least, k};
            }
        }
    }
    std::vector<int> parts{n};
    for (int j = count; j > 0; --j) parts.push_back(best[parts.back()][j].begin);
    std::ranges::reverse(parts);
    return parts;
}

std::vector<int> blocks_of(const std::map<int, PipelineLayer>& layers) {
    std::map<std::set<std::string>, std::vector<int>> alike;
    for (const auto& [number, layer] : layers)
        if (!layer.content.empty()) alike[layer.content].push_back(number);
    const auto most = std::ranges::max_element(alike, {}, [](const auto& entry) { return entry.second.size(); });
    return most == alike.end() ? std::vector<int>{} : most->second;
}

std::string StageRule::name() const {
    return kind_ == Kind::type         ? "equal numbers of transformer blocks"
           : kind_ == Kind::parameters ? "equal numbers of parameters"
                                       : fmt::format("equal numbers of {} layers", total_);
}

std::map<int, int> StageRule::stages(const std::map<int, PipelineLayer>& layers, int count) const {
    std::vector<Index> weights(static_cast<std::size_t>(total_), 0);
    if (kind_ == Kind::type) {
        for (const int block : blocks_of(layers)) weights[block] = 1;
    } else {
        for (const auto& [number, layer] : layers) weights[number] = layer.weight;
    }
    const std::vector<int> parts =
        kind_ == Kind::uniform ? uniform_parts(total_, count) : balanced_parts(weights, count);
    std::map<int, int> stages;
    for (const auto& [number, layer] : layers) stages[number] = part_of(parts, number);
    return stages;
}

std::optional<StageRule> find_stage_rule(const std::map<int, PipelineLayer>& layers, const std::map<int, int>& known,
                                         int count) {
    if (layers.empty()) return std::nullopt;
    constexpr int function_layers = 4;  // at most this many layers at the end have no parameters, and so no files
    const int least = layers.rbegin()->first + 1;
    for (const auto kind : {StageRule::Kind::type, StageRule::Kind::parameters, StageRule::Kind::uniform}) {
        for (int more = 0; more <= function_layers; ++more) {
            const StageRule rule{kind, least + more};
            if (rule.stages(layers, count) == known) return rule;
        }
    }
    return std::nullopt;
}

}  // namespace tpx::formats::deepspeed
