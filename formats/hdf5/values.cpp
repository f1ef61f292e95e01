// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/values.hpp"

#include "formats/encodings/hdf5/tree.hpp"
#include "formats/hdf5/own_datasets.hpp"
#include "formats/source.hpp"
#include "formats/state/value_text.hpp"
#include "lib/core/counted.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace tpx::formats::hdf5 {
namespace {

/// Whether tensors or other values already show the content of this attribute of tpx's own files.
bool is_known(std::string_view name) {
    constexpr std::array<std::string_view, 11> known{schema_key,  rank_key,   ranks_key, dtype_key,
                                                     shape_key,   offset_key, name_key,  role_key,
                                                     "iteration", "step",     "config"};
    return std::ranges::find(known, name) != known.end();
}

std::string attribute_text(const AttributeValue& attribute) {
    std::vector<std::string> texts;
    for (const std::string& text : attribute.texts) texts.push_back(quoted_text(text));
    for (const std::int64_t number : attribute.integers) texts.push_back(std::to_string(number));
    for (const double number : attribute.reals) texts.push_back(fmt::format("{}", number));
    return fmt::format("{}", fmt::join(texts, ", "));
}

/// The names of HDF5 group attributes that are not tpx's own.
std::vector<std::string> attributes_of(const Tree& tree) {
    std::vector<std::string> names;
    for (const GroupFacts& group : tree.groups) {
        for (const AttributeValue& attribute : group.attributes) {
            const std::string& name = attribute.name;
            if (name != schema_key && name != rank_key && name != ranks_key && name != "iteration")
                names.push_back(name);
        }
    }
    return names;
}

}  // namespace

void add_attributes(const Checkpoint& checkpoint, const AddValue& add) {
    if (!checkpoint.tree) return;
    const auto add_all = [&](const std::string& at, const Attributes& attributes) {
        for (const AttributeValue& attribute : attributes)
            if (!is_known(attribute.name) && attribute.kind != AttributeValue::Kind::other)
                add(fmt::format("{}@{}", at, attribute.name), attribute_text(attribute));
    };
    if (checkpoint.iteration) add("iteration", std::to_string(*checkpoint.iteration));
    for (const GroupFacts& group : checkpoint.tree->groups) add_all(group.path, group.attributes);
    for (const auto& [tensor, origin] : checkpoint.tree->datasets) add_all(tensor, origin.attributes);
}

void note_dropped(const Source& source, const Target& target, bool, std::vector<std::string>& notes) {
    const Checkpoint& checkpoint = source.checkpoint;
    if (target.format->values == ValueStorage::attributes) return;
    const std::string_view to = name(target.format);
    const std::vector<std::string> names =
        checkpoint.tree ? attributes_of(*checkpoint.tree) : std::vector<std::string>{};
    if (!names.empty())
        notes.push_back(fmt::format("dropped {} of HDF5 groups, which {} cannot store ('{}'{})",
                                    counted(names.size(), "attribute"), to, names[0], names.size() > 1 ? ", ..." : ""));
    if (checkpoint.iteration && !target.held && !target.format->has_args && !target.format->has_param_groups)
        notes.push_back(fmt::format("dropped the iteration ({}), which {} cannot store", *checkpoint.iteration, to));
}

}  // namespace tpx::formats::hdf5
