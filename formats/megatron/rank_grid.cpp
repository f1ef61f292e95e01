// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/rank_grid.hpp"

#include "formats/settings/args_layout.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"
#include "lib/layout/dims.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <tuple>

namespace tpx::formats::megatron {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view directory_prefix = "mp_rank_";

/// The numbers in a directory's name; empty if the name is malformed.
std::vector<int> numbers_of(const fs::path& directory) {
    const std::string name = directory.filename().string();
    std::vector<int> numbers;
    std::string_view rest = std::string_view{name}.substr(std::min(directory_prefix.size(), name.size()));
    while (name.starts_with(directory_prefix) && numbers.size() < 3) {
        int number = -1;
        const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
        if (error != std::errc{} || number < 0 || number >= max_job_ranks) return {};
        numbers.push_back(number);
        rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
        if (rest.empty()) return numbers;
        if (!rest.starts_with('_')) return {};
        rest.remove_prefix(1);
    }
    return {};
}

/// The highest number at each position of the names, plus one.
std::vector<int> extents(const std::vector<fs::path>& directories) {
    std::vector<int> most;
    for (const fs::path& directory : directories) {
        const std::vector<int> numbers = numbers_of(directory);
        if (!most.empty() && most.size() != numbers.size())
            throw failure("directories {} and {} have names of different kinds", directories[0].filename().string(),
                          directory.filename().string());
        most.resize(numbers.size());
        for (std::size_t k = 0; k < numbers.size(); ++k) most[k] = std::max(most[k], numbers[k] + 1);
    }
    return most;
}

/// Throws Error if the directories show `found` ranks on an axis, but args specify `expected`. `name` returns the
/// directory of a coordinate on that axis.
template <class Name>
void check_extent(std::string_view axis, int found, int expected, Name name) {
    if (found > expected)
        throw failure("found {}, but args specify {}",
                      counted(std::uint64_t(found), fmt::format("{}-parallel rank", axis)), expected);
    if (found == expected) return;
    constexpr int most_listed = 5;
    std::vector<std::string> missing;
    for (int k = found; k < expected && std::ssize(missing) < most_listed; ++k) missing.push_back(name(k));
    const int others = expected - found - int(missing.size());
    throw failure("found {} of {} {}-parallel ranks; {}{} {} missing", found, expected, axis, fmt::join(missing, ", "),
                  others > 0 ? fmt::format(" and {} more", others) : "", expected - found == 1 ? "is" : "are");
}

/// A rank's coordinates among those that hold experts: etp and ep instead of tp, cp and dp.
struct ExpertPlace {
    int etp = 0;
    int ep = 0;
};

ExpertPlace expert_place(const Layout& layout, int rank) {
    ExpertPlace place;
    const int etp = expert_tp(layout);
    const int edp = std::max(1, layout.tp * layout.cp * layout.dp / (etp * layout.ep));
    for (std::size_t at = 0; at < layout.order.size(); at += 3) {
        const std::string_view axis = std::string_view{layout.order}.substr(at, 2);
        const int size = axis == "tp"   ? etp
                         : axis == "ep" ? layout.ep
                         : axis == "dp" ? edp
                         : axis == "pp" ? layout.pp
                                        : 1;
        if (axis == "tp") place.etp = rank % size;
        if (axis == "ep") place.ep = rank % size;
        rank /= size;
    }
    return place;
}

std::string directory_name(const Layout& layout, const RankDirectory& at) {
    std::string name = fmt::format("{}{:02}", directory_prefix, at.tp);
    if (layout.pp > 1) name += fmt::format("_{:03}", at.pp);
    if (layout.ep > 1) name += fmt::format("_{:03}", at.ep);
    return name;
}

}  // namespace

std::vector<fs::path> find_rank_directories(const fs::path& iteration) {
    std::vector<fs::path> found;
    for (const std::string& name : list_directory(iteration)) {
        if (!name.starts_with(directory_prefix)) continue;
        if (numbers_of(iteration / name).empty())
            throw failure("{}: not named mp_rank_TT, mp_rank_TT_PPP or mp_rank_TT_PPP_EEE",
                          (iteration / name).string());
        found.push_back(name);
    }
    return found;
}

Layout layout_of(const Config& args, const std::vector<fs::path>& directories) {
    const std::vector<int> shown = extents(directories);
    if (shown.empty()) throw failure("no directory mp_rank_*");
    // The second of two numbers is a stage or, if args have ep > 1 and pp = 1, an expert rank.
    const bool experts = shown.size() == 2 && parallel_degree(args, "expert_model_parallel_size", 1) > 1 &&
                         parallel_degree(args, "pipeline_model_parallel_size", 1) == 1;
    Layout shown_layout{.tp = shown[0]};
    if (shown.size() > 1 && !experts) shown_layout.pp = shown[1];
    if (shown.size() == 3) shown_layout.ep = shown[2];
    const Layout layout = layout_of_args(args, shown_layout);
    const auto directory = [&](int RankDirectory::*axis) {
        return [&layout, axis](int k) {
            RankDirectory at;
            at.*axis = k;
            return directory_name(layout, at);
        };
    };
    check_extent("tensor", shown[0], layout.tp, directory(&RankDirectory::tp));
    check_extent("pipeline", shown.size() > 1 && !experts ? shown[1] : 1, layout.pp, directory(&RankDirectory::pp));
    check_extent("expert",
                 shown.size() == 3 ? shown[2]
                 : experts         ? shown[1]
                                   : 1,
                 layout.ep, directory(&RankDirectory::ep));
    return layout;
}

std::vector<RankDirectory> model_parts(const Layout& layout) {
    const int etp = expert_tp(layout);
    if (layout.tp * layout.cp * layout.dp % (etp * layout.ep) != 0)
        throw Error{Exit::usage, "layout: {}: tp * cp * dp = {} is not a multiple of etp * ep = {}", to_string(layout),
                    layout.tp * layout.cp * layout.dp, etp * layout.ep};
    std::set<std::tuple<int, int, int, int>> met;
    std::vector<RankDirectory> parts;
    for (int rank = 0; rank < layout.ranks(); ++rank) {
        const Coordinates at = coordinates(layout, rank);
        const ExpertPlace expert = expert_place(layout, rank);
        if (!met.emplace(at.tp, at.pp, expert.ep, expert.etp).second) continue;
        parts.push_back({.tp = at.tp, .pp = at.pp, .ep = expert.ep, .etp = expert.etp, .rank = rank});
        parts.back().path = directory_name(layout, parts.back());
    }
    return parts;
}

std::vector<RankDirectory> rank_directories(const Layout& layout) {
    std::vector<RankDirectory> all = model_parts(layout);
    std::set<std::filesystem::path> paths;
    for (const RankDirectory& directory : all)
        if (!paths.insert(directory.path).second)
            throw Error{
                Exit::usage,
                "layout: {}: rank files are named after tensor ranks, so that two ranks with different parts of "
                "experts would write {}; Megatron itself loses one of them",
                to_string(layout), directory.path.string()};
    return all;
}

std::vector<int> layers_of_chunks(const Layout& layout, int layers) {
    if (!layout.stages.empty()) return layout.stages;
    std::vector<int> of_stage(static_cast<std::size_t>(layout.pp));
    if (layout.pp == 1)
        of_stage[0] = layers;
    else
        for (int stage : stages_of_layers(layout, layers)) ++of_stage[static_cast<std::size_t>(stage)];
    std::vector<int> chunks;
    for (int chunk = 0; chunk < layout.vpp; ++chunk) {
        for (int count : of_stage) chunks.push_back(count / layout.vpp);
    }
    return chunks;
}

}  // namespace tpx::formats::megatron
