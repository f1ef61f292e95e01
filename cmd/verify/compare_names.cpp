// SPDX-License-Identifier: Apache-2.0
#include "cmd/verify/compare_names.hpp"

#include "formats/convert/missing_weights.hpp"
#include "lib/core/error.hpp"
#include "lib/exec/mpi.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

namespace tpx::cli {
namespace {

/// The names of tensors of `member` that are not names of tensors of `other`, by stored name. Omits stored tensors that
/// contain several canonical ones.
std::map<std::string, std::string> unmatched(const ComparedCheckpoint& member, const ComparedCheckpoint& other) {
    std::map<std::string, std::string> found;
    for (const auto& [name, number] : member.numbers) {
        const auto [at, is_new] = found.emplace(member.digested.canonical.stored_name(number), name);
        if (!is_new) at->second.clear();
    }
    std::erase_if(found,
                  [&](const auto& entry) { return entry.second.empty() || other.numbers.contains(entry.second); });
    return found;
}

Role role_of(const ComparedCheckpoint& member, const std::string& name) {
    return member.digested.canonical.roles[member.numbers.at(name)];
}

/// Whether `role` says what a tensor is. A tensor may have one of the other roles only because nothing identifies it.
bool is_known(Role role) { return role != Role::state && role != Role::extra && role != Role::weight; }

/// Whether tensors of these roles with the same stored name may be the same tensor. If both roles are known, parameters
/// are compared instead, because stored names may contain numbers for parameters.
bool may_be_same_tensor(Role a, Role b) { return !is_known(a) || !is_known(b); }

/// Makes all tensors of `source` unknown, so that only their stored names identify them.
void forget_meanings(formats::Source& source) {
    source.reading = {.meanings = std::vector<Meaning>(source.reading.meanings.size())};
    source.checkpoint.roles.clear();
    source.checkpoint.parameters.clear();
}

std::set<std::string_view> names_of(const formats::Source& source) {
    std::set<std::string_view> names;
    for (const Tensor& tensor : source.checkpoint.catalogue.tensors) names.insert(tensor.name);
    return names;
}

}  // namespace

void make_names_comparable(formats::Source& a, formats::Source& b) {
    if (!a.reading.complete) adopt_dims(a, b);
    if (!b.reading.complete) adopt_dims(b, a);
    // Tensors of different frameworks can be compared only part by part, which requires all sizes.
    if (a.reading.complete != b.reading.complete || !a.reading.complete) {
        const bool same_names = (a.reading.dialect == nullptr) == (b.reading.dialect == nullptr) &&
                                (!a.reading.dialect || a.reading.dialect->name == b.reading.dialect->name);
        if (!same_names && names_of(a) != names_of(b))
            throw mpi::AgreedError{
                failure("A and B use different names, and neither records the model's dimensions; pass --config")};
        for (formats::Source* source : {&a, &b}) {
            source->reading.complete = false;
            if (!same_names) forget_meanings(*source);
        }
    }
}

std::vector<std::string> weights_of_master(const std::string& name) {
    if (name.starts_with("master.")) return {name.substr(std::string_view{"master."}.size())};
    if (name.starts_with("master ")) return {"weight " + name.substr(std::string_view{"master "}.size())};
    return {};
}

std::string master_of(const std::string& name, const ComparedCheckpoint& member) {
    constexpr std::string_view prefix = "weight ";  // how names of tensors that are not split begin
    std::string master = "master." + name;
    if (name.starts_with(prefix)) {
        const std::string parameter = name.substr(prefix.size());
        const auto& shared = member.source->checkpoint.shared;
        const auto kept = shared.find(parameter);
        master = fmt::format("master {}", kept == shared.end() ? parameter : kept->second);
    }
    return member.numbers.contains(master) ? master : "";
}

std::vector<std::string> masters_without_weight(const ComparedCheckpoint& member, const ComparedCheckpoint& other) {
    if (formats::stores_masters_only(member.source->checkpoint) || !member.roles.contains(Role::weight)) return {};
    std::vector<std::string> masters;
    for (const auto& [name, number] : member.numbers) {
        if (member.digested.canonical.roles[number] != Role::master || !other.numbers.contains(name)) continue;
        const auto stored = [&](const std::string& weight) {
            return member.numbers.contains(weight) || other.numbers.contains(weight);
        };
        if (std::ranges::none_of(weights_of_master(name), stored)) masters.push_back(name);
    }
    return masters;
}

bool is_rounded(const std::string& name, const ComparedCheckpoint& half, const ComparedCheckpoint& full) {
    const DType dtype = half.digested.canonical.tensors[half.numbers.at(name)].dtype;
    const DType other = full.digested.canonical.tensors[full.numbers.at(name)].dtype;
    return (dtype == DType::f16 || dtype == DType::bf16) && other == DType::f32 && !full.roles.contains(Role::master);
}

std::map<std::string, std::string> pairs_by_stored_name(const ComparedCheckpoint& a, const ComparedCheckpoint& b) {
    const std::map<std::string, std::string> of_a = unmatched(a, b), of_b = unmatched(b, a);
    std::map<std::string, std::string> pairs;
    for (const auto& [stored, name] : of_a) {
        const auto other = of_b.find(stored);
        if (other != of_b.end() && may_be_same_tensor(role_of(a, name), role_of(b, other->second)))
            pairs.emplace(name, other->second);
    }
    return pairs;
}

}  // namespace tpx::cli
