// SPDX-License-Identifier: Apache-2.0
#include "formats/left_out.hpp"

#include "formats/companions.hpp"
#include "formats/hdf5/own.hpp"
#include "formats/hdf5/tree.hpp"
#include "formats/kept_names.hpp"
#include "formats/megatron/rank_files.hpp"
#include "formats/megatron/rng_states.hpp"
#include "formats/roles.hpp"
#include "formats/state/carried.hpp"
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

/// Settings that are neither tensors nor values of a dict: of HDF5's groups, of DeepSpeed's engine, of an optimizer.
std::vector<std::string> settings_left_out(const Source& source, const Target& target) {
    const Checkpoint& checkpoint = source.checkpoint;
    const std::string_view to = name(target.format);
    std::vector<std::string> notes;
    if (checkpoint.format == Format::hdf5 && target.format != Format::hdf5) {
        const std::vector<std::string> names =
            checkpoint.tree ? attributes_of(*checkpoint.tree) : std::vector<std::string>{};
        if (!names.empty())
            notes.push_back(fmt::format("dropped {} of HDF5 groups, which {} cannot store ('{}'{})",
                                        counted(names.size(), "attribute"), to, names[0],
                                        names.size() > 1 ? ", ..." : ""));
        if (checkpoint.iteration && !is_megatron(target.format) && !is_deepspeed(target.format))
            notes.push_back(
                fmt::format("dropped the iteration ({}), which {} cannot store", *checkpoint.iteration, to));
    }
    if (is_deepspeed(checkpoint.format) && (is_torch(target.format) || target.format == Format::dcp))
        notes.emplace_back("dropped the configuration of DeepSpeed's engine (ds_config, clip_grad)");
    const bool told = !checkpoint.catalogue.objects.empty() && checkpoint.format == Format::dcp;
    if (target.format == Format::hdf5 && checkpoint.format != Format::hdf5 && !told && has_moments(source))
        notes.emplace_back("dropped the settings of the optimizer (param_groups), which hdf5 cannot store");
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
    const bool to_megatron = target.format == Format::torch_dist || target.format == Format::megatron;
    if (source.checkpoint.rank_files && !to_megatron && target.format != Format::dcp)
        out.notes.push_back("dropped RNG states, if any");
    if (to_megatron) {
        const megatron::RngStates states{source.checkpoint};
        if (!states.empty() && !states.has_all(target.layout))
            out.notes.push_back("new ranks reuse another rank's RNG state with a different seed");
    }
    if (is_torch(source.checkpoint.format) && (!is_torch(target.format) || out.dialect)) {
        std::string note = note_of_classes(torch::Archive::open(source.checkpoint.catalogue.path(0)));
        if (!note.empty()) out.notes.push_back(std::move(note));
    }
    for (std::string& note : settings_left_out(source, target)) out.notes.push_back(std::move(note));
    for (const std::string& note : source.checkpoint.notes)
        if (note.starts_with(not_carried_over)) out.notes.push_back(note);
    const auto& companions = source.checkpoint.companions;
    if (is_torch(target.format))
        say(companions.size(), "file", "which a single torch file cannot contain",
            companions.empty() ? "" : companions[0].string());
    std::vector<Object> objects = source.checkpoint.catalogue.objects;
    if (out.content.adam)
        std::erase_if(objects, [](const Object& o) { return o.name.find("param_groups.") != std::string::npos; });
    const bool same_kind = (to_megatron && is_megatron(source.checkpoint.format)) ||
                           (is_deepspeed(target.format) && is_deepspeed(source.checkpoint.format));
    const bool restored = to_megatron && source.checkpoint.format == Format::dcp;
    if (!same_kind && !restored && !is_torch(target.format) && target.format != Format::dcp) {
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
    if (to_megatron || target.format == Format::dcp)
        std::erase_if(objects, [](const Object& object) { return object.name.starts_with("rng_state/"); });
    const bool unpacked = is_torch(target.format) && source.checkpoint.format == Format::dcp;
    if (source.checkpoint.format != target.format && !unpacked)
        say(objects.size(), "object", fmt::format("which {} cannot store", name(target.format)),
            objects.empty() ? "" : objects[0].name);
}

void note_split_files(const Target& target, Conversion& out) {
    if (target.format != Format::safetensors) return;
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
