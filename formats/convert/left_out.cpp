// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/left_out.hpp"

#include "formats/companions.hpp"
#include "formats/convert/kept_names.hpp"
#include "formats/driver.hpp"
#include "formats/encodings/hdf5/tree.hpp"
#include "formats/hdf5/own.hpp"
#include "formats/megatron/rank_files.hpp"
#include "formats/megatron/rng_states.hpp"
#include "formats/state/carried.hpp"
#include "formats/state/roles.hpp"
#include "formats/torch/open.hpp"
#include "lib/core/counted.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx::formats {

namespace {

/// The attributes of HDF5 groups that are not tpx's own marks.
std::vector<std::string> attributes_of(const hdf5::Tree& tree) {
    std::vector<std::string> names;
    for (const hdf5::GroupFacts& group : tree.groups) {
        for (const hdf5::AttributeValue& attribute : group.attributes) {
            const std::string& name = attribute.name;
            if (name != hdf5::schema_key && name != hdf5::rank_key && name != hdf5::ranks_key && name != "iteration")
                names.push_back(name);
        }
    }
    return names;
}

/// Whether the format stores values of any Python type that are not tensors.
bool stores_any_value(const Driver& driver) {
    return driver.values == ValuesIn::one_file || driver.values == ValuesIn::objects;
}

/// Settings that are neither tensors nor values of a dict: of HDF5's groups, of DeepSpeed's engine, of an optimizer.
std::vector<std::string> settings_left_out(const Source& source, const Target& target) {
    const Checkpoint& checkpoint = source.checkpoint;
    const std::string_view to = name(target.format);
    std::vector<std::string> notes;
    const ValuesIn from = checkpoint.format->values;
    const bool to_attributes = target.format->values == ValuesIn::attributes;
    if (from == ValuesIn::attributes && !to_attributes) {
        const std::vector<std::string> names =
            checkpoint.tree ? attributes_of(*checkpoint.tree) : std::vector<std::string>{};
        if (!names.empty())
            notes.push_back(fmt::format("dropped {} of HDF5 groups, which {} cannot store ('{}'{})",
                                        counted(names.size(), "attribute"), to, names[0],
                                        names.size() > 1 ? ", ..." : ""));
        if (checkpoint.iteration && !target.format->has_args && !target.format->has_param_groups)
            notes.push_back(
                fmt::format("dropped the iteration ({}), which {} cannot store", *checkpoint.iteration, to));
    }
    if (from == ValuesIn::engine_files && stores_any_value(*target.format))
        notes.emplace_back("dropped the configuration of DeepSpeed's engine (ds_config, clip_grad)");
    const bool told = !checkpoint.catalogue.objects.empty() && from == ValuesIn::objects;
    if (to_attributes && from != ValuesIn::attributes && !told && has_moments(source))
        notes.push_back(fmt::format("dropped the settings of the optimizer (param_groups), which {} cannot store", to));
    return notes;
}

}  // namespace

void note_left_out(const Source& source, const Target& target, Conversion& out) {
    const auto say = [&](std::size_t count, std::string_view noun, std::string_view why, const std::string& example) {
        if (count > 0)
            out.notes.push_back(
                fmt::format("dropped {}, {} ('{}'{})", counted(count, noun), why, example, count > 1 ? ", ..." : ""));
    };
    const auto& left = out.expressed.left_out;
    say(left.size(), "tensor", "which the target does not store", left.empty() ? "" : left[0]);
    std::vector<std::string> extra;
    for (const RankDirectory& directory :
         source.checkpoint.rank_files ? source.checkpoint.rank_files->directories : std::vector<RankDirectory>{})
        extra.insert(extra.end(), directory.extra_states.begin(), directory.extra_states.end());
    say(extra.size(), "TransformerEngine extra state", "so FP8 scaling starts over", extra.empty() ? "" : extra[0]);
    const ValuesIn from = source.checkpoint.format->values;
    const bool to_file = target.format->values == ValuesIn::one_file;
    const bool to_objects = target.format->values == ValuesIn::objects;
    const bool to_megatron = target.format->has_args;
    if (source.checkpoint.rank_files && !to_megatron && !to_objects) out.notes.push_back("dropped RNG states, if any");
    if (to_megatron) {
        const megatron::RngStates states{source.checkpoint};
        if (!states.empty() && !states.has_all(target.layout))
            out.notes.push_back("new ranks reuse another rank's RNG state with a different seed");
    }
    if (from == ValuesIn::one_file && (!to_file || out.dialect)) {
        std::string note = note_of_classes(torch::Archive::open(source.checkpoint.catalogue.path(0)));
        if (!note.empty()) out.notes.push_back(std::move(note));
    }
    for (std::string& note : settings_left_out(source, target)) out.notes.push_back(std::move(note));
    for (const std::string& note : source.checkpoint.notes)
        if (note.starts_with(not_carried_over)) out.notes.push_back(note);
    const auto& companions = source.checkpoint.companions;
    if (target.format->is_one_file)
        say(companions.size(), "file", "which a single torch file cannot contain",
            companions.empty() ? "" : companions[0].string());
    std::vector<Object> objects = source.checkpoint.catalogue.objects;
    if (out.content.adam)
        std::erase_if(objects, [](const Object& o) { return o.name.find("param_groups.") != std::string::npos; });
    const bool same_kind = (to_megatron && source.checkpoint.format->has_args) ||
                           (target.format->has_param_groups && source.checkpoint.format->has_param_groups);
    const bool restored = to_megatron && from == ValuesIn::objects;
    if (!same_kind && !restored && !stores_any_value(*target.format)) {
        const std::vector<std::string> keys = state_keys(source.checkpoint);
        say(keys.size(), "non-tensor value", fmt::format("which {} cannot store", name(target.format)),
            keys.empty() ? "" : keys[0]);
    }
    // Megatron's own formats take over states of random number generators, which DCP keeps, and extra states without
    // content.
    constexpr std::uint64_t empty_extra_state = 1500;
    if (to_megatron)
        std::erase_if(objects, [](const Object& object) {
            return object.name.find("._extra_state/") != object.name.npos && object.length < empty_extra_state;
        });
    if (to_megatron || to_objects)
        std::erase_if(objects, [](const Object& object) { return object.name.starts_with("rng_state/"); });
    const bool unpacked = to_file && from == ValuesIn::objects;
    if (source.checkpoint.format != target.format && !unpacked)
        say(objects.size(), "object", fmt::format("which {} cannot store", name(target.format)),
            objects.empty() ? "" : objects[0].name);
}

void note_split_files(const Target& target, Conversion& out) {
    if (!target.format->is_hugging_face) return;
    const bool split = std::ranges::any_of(out.draft.pieces, [&](const Piece& piece) {
        return volume(piece.box) < volume(out.draft.tensors[piece.tensor].shape);
    });
    if (split)
        out.notes.push_back(fmt::format(
            "the output is safetensors split by rank ({}): PyTorch's HuggingFaceStorageReader can load it; for "
            "transformers and vLLM use --to tp=1, for Megatron-core use --format torch_dist",
            to_string(target.layout)));
}

}  // namespace tpx::formats
