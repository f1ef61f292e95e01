// SPDX-License-Identifier: Apache-2.0
#include "cmd/compare_names.hpp"

#include <fmt/format.h>

#include <string_view>

namespace tpx::cli {
namespace {

/// The tensors of `member` that `other` has no tensor of the same name for, by the name under which they are stored
/// whole; nothing for a name of several.
std::map<std::string, std::string> unmatched(const Member& member, const Member& other) {
    std::map<std::string, std::string> found;
    for (const auto& [name, number] : member.numbers) {
        const auto [at, is_new] = found.emplace(member.digested.canonical.stored_names[number], name);
        if (!is_new) at->second.clear();
    }
    std::erase_if(found,
                  [&](const auto& entry) { return entry.second.empty() || other.numbers.contains(entry.second); });
    return found;
}

const std::string& role_of(const Member& member, const std::string& name) {
    return member.digested.canonical.roles[member.numbers.at(name)];
}

/// Whether a tensor of `role` is Adam's state of a known parameter. Every other tensor may have its role only because
/// nothing says what it is.
bool is_known(const std::string& role) { return role != "state" && role != "extra" && role != "weight"; }

/// Whether tensors of these roles may be one. State that both sides understand is told apart by its parameters: in
/// files, numbers may stand for these.
bool may_be_one(const std::string& a, const std::string& b) { return !is_known(a) || !is_known(b); }

}  // namespace

std::vector<std::string> weights_of_master(const std::string& name) {
    if (name.starts_with("master.")) return {name.substr(std::string_view{"master."}.size())};
    if (name.starts_with("master ")) return {"weight " + name.substr(std::string_view{"master "}.size())};
    return {};
}

std::string master_of(const std::string& name, const Member& member) {
    constexpr std::string_view untaken = "weight ";  // how Names calls tensors that are not taken apart
    std::string master = "master." + name;
    if (name.starts_with(untaken)) {
        const std::string parameter = name.substr(untaken.size());
        const auto& shared = member.source->checkpoint.shared;
        const auto kept = shared.find(parameter);
        master = fmt::format("master {}", kept == shared.end() ? parameter : kept->second);
    }
    return member.numbers.contains(master) ? master : "";
}

bool is_rounded(const std::string& name, const Member& half, const Member& full) {
    const DType dtype = half.digested.canonical.tensors[half.numbers.at(name)].dtype;
    const DType other = full.digested.canonical.tensors[full.numbers.at(name)].dtype;
    return (dtype == DType::f16 || dtype == DType::bf16) && other == DType::f32 && !full.roles.contains("master");
}

std::map<std::string, std::string> pairs_by_stored_name(const Member& a, const Member& b) {
    const std::map<std::string, std::string> of_a = unmatched(a, b), of_b = unmatched(b, a);
    std::map<std::string, std::string> pairs;
    for (const auto& [stored, name] : of_a) {
        const auto other = of_b.find(stored);
        if (other != of_b.end() && may_be_one(role_of(a, name), role_of(b, other->second)))
            pairs.emplace(name, other->second);
    }
    return pairs;
}

}  // namespace tpx::cli
