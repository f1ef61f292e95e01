// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/dropped_copies.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace tpx::formats {
namespace {

constexpr std::string_view untie = "--set tie_word_embeddings=false keeps both";
constexpr std::string_view keep_names =
    "the model has one tensor for both; remove one of them from the checkpoint, or leave the names as they are with "
    "--dialect keep";

constexpr std::string_view keep_tied = "--dialect keep leaves the names as they are and keeps both";

/// Maps names of canonical tensors outside the layers to the stored tensors that contain them.
using Stored = std::map<std::string_view, std::uint32_t>;

/// Adds the dropped copies of one role. A stored tensor that is not a copy is kept; without one, the first copy is.
void add(const Reading& reading, Role role, std::vector<DroppedCopy>& dropped) {
    Stored stored;
    std::vector<std::uint32_t> copies;
    for (std::uint32_t t = 0; t < reading.meanings.size(); ++t) {
        const Meaning& meaning = reading.meanings[t];
        if (meaning.kind != Meaning::Kind::parameter || meaning.role != role) continue;
        if (meaning.rule->alias())
            copies.push_back(t);
        else
            stored.emplace(meaning.rule->expression.parts[0], t);
    }
    for (const auto& [name, tensor] : reading.family->tensors) {
        if (!reading.tied || tensor.tie.empty() || tensor.has('l')) continue;  // of layers: see dropped_ties()
        const auto original = stored.find(tensor.tie);
        const auto head = stored.find(name);
        if (original == stored.end()) continue;
        if (head != stored.end()) dropped.push_back({original->second, head->second, std::string{untie}});
        stored.emplace(name, original->second);
    }
    for (const std::uint32_t copy : copies) {
        const auto [original, first] = stored.emplace(reading.meanings[copy].rule->expression.parts[0], copy);
        if (!first) dropped.push_back({original->second, copy, std::string{keep_names}});
    }
}

/// Adds the elements that a tensor repeats: conversion keeps the first of each.
void add_repeats(const Checkpoint& checkpoint, const Reading& reading, std::vector<DroppedCopy>& dropped) {
    for (std::uint32_t t = 0; t < reading.meanings.size(); ++t) {
        const Meaning& meaning = reading.meanings[t];
        if (meaning.kind != Meaning::Kind::parameter || meaning.rule->expression.repeats.empty()) continue;
        std::map<std::string, Part> first;
        for (const Part& part : parts_of(reading, checkpoint.catalogue.tensors[t], meaning)) {
            const auto [original, is_first] = first.emplace(part.name, part);
            if (!is_first) dropped.push_back({t, t, std::string{keep_names}, original->second, part});
        }
    }
}

}  // namespace

std::vector<DroppedCopy> dropped_copies(const Checkpoint& checkpoint, const Reading& reading) {
    std::vector<DroppedCopy> dropped;
    if (!reading.family) return dropped;
    for (const Role role : {Role::weight, Role::master}) add(reading, role, dropped);
    // Tied tensors of torch.save often share their bytes.
    std::map<std::uint32_t, std::vector<const Piece*>> pieces;
    for (const DroppedCopy& copy : dropped) pieces[copy.kept] = pieces[copy.dropped] = {};
    for (const Piece& piece : checkpoint.catalogue.pieces)
        if (const auto found = pieces.find(piece.tensor); found != pieces.end()) found->second.push_back(&piece);
    std::erase_if(dropped, [&](const DroppedCopy& copy) {
        const auto &a = pieces.at(copy.kept), &b = pieces.at(copy.dropped);
        return a.size() == b.size() &&
               std::equal(a.begin(), a.end(), b.begin(), [](const Piece* first, const Piece* second) {
                   return first->file == second->file && first->offset == second->offset && first->box == second->box &&
                          first->strides == second->strides;
               });
    });
    add_repeats(checkpoint, reading, dropped);
    return dropped;
}

std::vector<DroppedCopy> dropped_ties(const Checkpoint& checkpoint, const Reading& reading,
                                      const ExpressedState& expressed) {
    std::vector<DroppedCopy> dropped;
    if (expressed.dropped_ties.empty()) return dropped;
    const auto stored_as = [&](const std::string& name) -> const std::string& {
        const auto copy = expressed.copies.find(name);
        return copy == expressed.copies.end() ? name : copy->second;
    };
    std::set<std::string> wanted;
    for (const auto& [tied, original] : expressed.dropped_ties) wanted.insert({stored_as(tied), stored_as(original)});
    std::map<std::string, std::pair<std::uint32_t, Part>> found;
    const auto& tensors = checkpoint.catalogue.tensors;
    for (std::uint32_t t = 0; t < tensors.size(); ++t)
        for (const Part& part : parts_of(reading, tensors[t], reading.meanings[t]))
            if (wanted.contains(part.name)) found.emplace(part.name, std::pair{t, part});
    for (const auto& [tied, original] : expressed.dropped_ties) {
        const auto copy = found.find(stored_as(tied)), kept = found.find(stored_as(original));
        if (copy == found.end() || kept == found.end())
            throw failure("tensor '{}' is dropped, but cannot be compared with '{}'; {}", tied, original, keep_tied);
        dropped.push_back(
            {kept->second.first, copy->second.first, std::string{keep_tied}, kept->second.second, copy->second.second});
    }
    return dropped;
}

}  // namespace tpx::formats
