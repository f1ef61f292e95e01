// SPDX-License-Identifier: Apache-2.0
#include "cmd/output/output.hpp"
#include "cmd/output/output_file.hpp"
#include "cmd/profile/profile.hpp"
#include "formats/files/profile/gpu_profile_file.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/units.hpp"
#include "lib/core/write_file.hpp"
#include "lib/model/hetero.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>

namespace tpx::cli {
namespace {

using nlohmann::ordered_json;

// "V100=4": the name and what is behind the equals sign.
std::pair<std::string, std::string> pair_of(const std::string& text, std::string_view option) {
    const std::size_t equals = text.find('=');
    if (equals == text.npos || equals == 0 || equals + 1 == text.size())
        throw Error{Exit::usage, "{}: '{}' is not TYPE=VALUE", option, text};
    const std::string name = text.substr(0, equals);
    const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; };
    if (!std::ranges::all_of(name, plain))
        throw Error{Exit::usage, "{}: '{}' has other signs than letters, digits, '-', '_' and '.'", option, name};
    return {name, text.substr(equals + 1)};
}

std::vector<GpuProfile> profiles_of(const ProfileHeteroOptions& options) {
    std::vector<GpuProfile> profiles;
    const auto find = [&](const std::string& name) { return std::ranges::find(profiles, name, &GpuProfile::name); };
    for (const std::string& text : options.profiles) {
        const auto [name, file] = pair_of(text, "--profile");
        if (find(name) != profiles.end()) throw Error{Exit::usage, "--profile: {} is there twice", name};
        profiles.push_back({name, 0, formats::parse_gpu_profile(read_file(file, std::uint64_t{1} << 20), file)});
    }
    for (const std::string& text : options.gpus) {
        const auto [name, count] = pair_of(text, "--count");
        if (find(name) == profiles.end()) throw Error{Exit::usage, "--count: there is no --profile of {}", name};
        find(name)->count = whole_number(count, "--count", 1, 4096);
    }
    for (const GpuProfile& profile : profiles)
        if (profile.count == 0 && options.shares.empty())
            throw Error{Exit::usage, "--count: how many {} are there?", profile.name};
    return profiles;
}

// "2x8x64": GPUs, virtual nodes of each, samples of each virtual node.
WorkShare share_of(const std::string& text, std::span<const GpuProfile> profiles) {
    const auto [name, numbers] = pair_of(text, "--assign");
    const auto profile = std::ranges::find(profiles, name, &GpuProfile::name);
    if (profile == profiles.end()) throw Error{Exit::usage, "--assign: there is no --profile of {}", name};
    const std::size_t first = numbers.find('x'), second = numbers.find('x', std::min(first, numbers.size() - 1) + 1);
    if (first == numbers.npos || second == numbers.npos)
        throw Error{Exit::usage, "--assign: '{}' is not TYPE=GPUSxVIRTUAL_NODESxSAMPLES, such as V100=2x8x64", text};
    WorkShare share;
    share.type = static_cast<std::size_t>(profile - profiles.begin());
    share.gpus = whole_number(numbers.substr(0, first), "--assign", 1, 4096);
    share.virtual_nodes = whole_number(numbers.substr(first + 1, second - first - 1), "--assign", 1, 1 << 20);
    share.virtual_node_batch = whole_number(numbers.substr(second + 1), "--assign", 1, 1 << 24);
    return share;
}

// The step of the assignment that --assign gives.
HeteroAssignment given_assignment(const ProfileHeteroOptions& options, const std::vector<GpuProfile>& profiles,
                                  double communication) {
    if (!options.gpus.empty() || options.batch)
        throw Error{Exit::usage, "--assign excludes --count and --batch: it says both"};
    std::vector<WorkShare> shares;
    for (const std::string& text : options.shares) shares.push_back(share_of(text, profiles));
    std::ranges::sort(shares, {}, &WorkShare::type);
    for (std::size_t i = 1; i < shares.size(); ++i)
        if (shares[i - 1].type == shares[i].type)
            throw Error{Exit::usage, "--assign: {} is given twice; all GPUs of a type do the same",
                        profiles[shares[i].type].name};
    return evaluate_shares(profiles, std::move(shares), communication);
}

ordered_json hetero_json(const std::vector<GpuProfile>& profiles, const HeteroAssignment& assignment) {
    ordered_json json{
        {"batch", assignment.batch}, {"seconds", assignment.seconds}, {"throughput", assignment.throughput()}};
    for (const WorkShare& share : assignment.shares)
        json["gpus"].push_back({{"type", profiles[share.type].name},
                                {"count", share.gpus},
                                {"virtual_nodes", share.virtual_nodes},
                                {"virtual_node_batch", share.virtual_node_batch},
                                {"seconds", share.seconds},
                                {"gradient_weight", assignment.gradient_weight(share)}});
    return json;
}

void print_shares(const std::vector<GpuProfile>& profiles, const HeteroAssignment& best, Output& out) {
    out.result("{:>5} {:<10} {:>14} {:>14} {:>10} {:>12}\n", "GPUs", "type", "virtual nodes", "of examples", "a step",
               "weight each");
    for (const WorkShare& share : best.shares)
        out.result("{:>5} {:<10} {:>14} {:>14} {:>10} {:>12.6g}\n", share.gpus, profiles[share.type].name,
                   share.virtual_nodes, share.virtual_node_batch, format_seconds(share.seconds),
                   best.gradient_weight(share));
    out.result("\n{:g} examples in {}, {:.6g} examples/s\n", static_cast<double>(best.batch),
               format_seconds(best.seconds), best.throughput());
}

void print_text(const std::vector<GpuProfile>& profiles, const HeteroAssignment& best,
                const std::optional<HeteroAssignment>& alone, Output& out) {
    print_shares(profiles, best, out);
    const auto slowest = std::ranges::max_element(best.shares, {}, &WorkShare::seconds);
    out.result(
        "{} takes longest; of all assignments as fast this has the fewest GPUs, then the largest virtual nodes\n",
        profiles[slowest->type].name);
    if (best.shares.size() == 1)
        out.result("no mixture is faster than {} alone\n", profiles[best.shares[0].type].name);
    else if (alone)
        out.result("{:.2f} times as fast as the best of one kind, {} {}\n", best.throughput() / alone->throughput(),
                   alone->gpus(), profiles[alone->shares[0].type].name);
    for (std::size_t type = 0; type < profiles.size(); ++type) {
        const auto share = std::ranges::find(best.shares, type, &WorkShare::type);
        const int used = share == best.shares.end() ? 0 : share->gpus;
        if (used < profiles[type].count)
            out.result("{} of {} {} are not needed: more would not make the step shorter\n",
                       profiles[type].count - used, profiles[type].count, profiles[type].name);
    }
}

}  // namespace

void run_profile_hetero(const ProfileHeteroOptions& options, Output& out) {
    if (!is_first_rank()) return;
    const ReadRecord record;
    const std::vector<GpuProfile> profiles = profiles_of(options);
    check_outputs_apart({{"--output", options.output}}, record);
    const double communication = options.communication.value_or(0);
    if (!options.shares.empty()) {
        const HeteroAssignment given = given_assignment(options, profiles, communication);
        if (!options.output.empty()) write_file(options.output, formats::assignment_text(profiles, given));
        if (!out.json()) return print_shares(profiles, given, out);
        ordered_json json = hetero_json(profiles, given);
        json["one_kind"] = nullptr;
        return out.object("tpx.profile.hetero/1", json);
    }
    const auto batch = static_cast<int>(options.batch.value_or(0));
    const auto best = assign_virtual_nodes(profiles, batch, communication);
    if (!best)
        throw Error{Exit::no,
                    "{} cannot be split over these GPUs: no sum of profiled batch sizes times powers of two is {}",
                    counted(std::uint64_t(batch), "sample"), batch};
    const auto alone = assign_one_kind(profiles, batch, communication);
    if (!options.output.empty()) write_file(options.output, formats::assignment_text(profiles, *best));
    if (!out.json()) return print_text(profiles, *best, alone, out);
    ordered_json json = hetero_json(profiles, *best);
    json["one_kind"] = alone ? hetero_json(profiles, *alone) : ordered_json(nullptr);
    out.object("tpx.profile.hetero/1", json);
}

}  // namespace tpx::cli
