// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/left_out.hpp"

#include "formats/convert/kept_names.hpp"
#include "formats/driver.hpp"
#include "formats/state/carried.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/counted.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx::formats {

namespace {

/// Whether the format stores values of any Python type that are not tensors.
bool stores_any_value(const Driver& driver) {
    return driver.values == ValuesIn::one_file || driver.values == ValuesIn::objects;
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
    if (const auto note = source.checkpoint.format->note_left_out)
        note(source, target, out.dialect != nullptr, out.notes);
    if (const auto note = target.format->note_new) note(source, target.layout, out.notes);
    const ValuesIn from = source.checkpoint.format->values;
    const bool to_file = target.format->values == ValuesIn::one_file;
    const bool to_objects = target.format->values == ValuesIn::objects;
    const bool to_megatron = target.format->has_args;
    const bool told = !source.checkpoint.catalogue.objects.empty() && from == ValuesIn::objects;
    if (target.format->values == ValuesIn::attributes && from != ValuesIn::attributes && !told && has_moments(source))
        out.notes.push_back(fmt::format("dropped the settings of the optimizer (param_groups), which {} cannot store",
                                        name(target.format)));
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
    const bool kept = source.checkpoint.format == target.format ||
                      (from == ValuesIn::common_and_objects && target.format->values == from);
    if (!kept && !unpacked)
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
