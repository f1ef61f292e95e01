// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/conversion_notes.hpp"

#include "formats/companions.hpp"
#include "formats/convert/rename_optimizer_state.hpp"
#include "formats/driver.hpp"
#include "formats/encodings/archive_at.hpp"
#include "formats/state/carried_state.hpp"
#include "formats/state/extra_state.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx::formats {

namespace {

/// Adds a note that `count` things, such as `example`, were dropped. Does nothing if `count` is 0.
void add_dropped_note(std::vector<std::string>& notes, std::size_t count, std::string_view noun, std::string_view why,
                      const std::string& example) {
    if (count > 0)
        notes.push_back(
            fmt::format("dropped {}, {} ('{}'{})", counted(count, noun), why, example, count > 1 ? ", ..." : ""));
}

/// Does the same for things, given by name, that `target` cannot store.
void add_not_stored_note(std::vector<std::string>& notes, const std::vector<std::string>& names, std::string_view noun,
                         const Driver& target) {
    add_dropped_note(notes, names.size(), noun, fmt::format("which {} cannot store", target.name),
                     names.empty() ? "" : names[0]);
}

void note_values(const Source& source, const Driver& target, std::vector<std::string>& notes) {
    const Driver& from = *source.checkpoint.format;
    const bool has_objects = !source.checkpoint.catalogue.objects.empty() && from.values == ValueStorage::objects;
    if (target.values == ValueStorage::attributes && from.values != ValueStorage::attributes && !has_objects &&
        has_moments(source))
        notes.push_back(
            fmt::format("dropped the settings of the optimizer (param_groups), which {} cannot store", target.name));
    notes.insert(notes.end(), source.checkpoint.warnings.begin(), source.checkpoint.warnings.end());
    for (const std::string& note : source.checkpoint.notes)
        if (note.starts_with(not_carried_over)) notes.push_back(note);
    const auto& companions = source.checkpoint.companions;
    if (target.is_one_file)
        add_dropped_note(notes, companions.size(), "file", "which a single torch file cannot contain",
                         companions.empty() ? "" : companions[0].string());
    const bool same_kind = (target.has_args && from.has_args) || (target.has_param_groups && from.has_param_groups);
    const bool restored = target.has_args && from.values == ValueStorage::objects;
    if (!same_kind && !restored && !target.stores_any_value())
        add_not_stored_note(notes, state_keys(source.checkpoint), "non-tensor value", target);
}

bool is_extra_state(const Object& object) { return object.name.find("._extra_state/") != object.name.npos; }

/// Whether Megatron's formats keep an object of another format, or do not need it because it is an empty extra state.
bool is_for_megatron(const Catalogue& catalogue, const Object& object) {
    constexpr std::uint64_t longest_empty = 8192;  // torch.save writes less for an empty tensor
    if (object.name.starts_with("rng_state/")) return true;
    if (!is_extra_state(object) || object.length > longest_empty) return false;
    bool is_empty = false;
    try {
        with_archive(catalogue, object,
                     [&](const torch::Archive& archive) { is_empty = is_empty_extra_state(archive.root(), archive); });
    } catch (const Error&) {  // something else, which is not kept
    }
    return is_empty;
}

void note_objects(const Source& source, const Driver& target, bool has_adam, std::vector<std::string>& notes) {
    const Driver& from = *source.checkpoint.format;
    constexpr std::string_view parameter_settings = "param_to_group_meta.";
    const bool kept = &from == &target || (stores_megatron_tensors(from) && stores_megatron_tensors(target));
    if (kept || (target.values == ValueStorage::one_file && from.values == ValueStorage::objects)) return;
    std::vector<std::string> names;
    std::vector<std::string> extra_states;
    std::set<std::string> merged;  // parameters whose settings Megatron-FSDP stores one by one
    for (const Object& object : source.checkpoint.catalogue.objects) {
        const bool is_rng = object.name.starts_with("rng_state/");
        const auto contains = [&](std::string_view key) { return object.name.find(key) != object.name.npos; };
        if (has_adam && contains(parameter_settings)) merged.insert(object.name.substr(0, object.name.rfind('.')));
        if (has_adam && (contains("param_groups.") || contains(parameter_settings))) continue;
        if (target.has_args && is_for_megatron(source.checkpoint.catalogue, object)) continue;
        if (target.values == ValueStorage::objects && is_rng) continue;
        (target.has_args && is_extra_state(object) ? extra_states : names).push_back(object.name);
    }
    if (!merged.empty())
        notes.push_back(
            fmt::format("merged the optimizer settings of {} ('{}'{}) into groups with and without weight decay",
                        counted(merged.size(), "parameter"), *merged.begin(), merged.size() > 1 ? ", ..." : ""));
    add_not_stored_note(notes, names, "object", target);
    add_dropped_note(notes, extra_states.size(), "TransformerEngine extra state", "so FP8 scaling starts over",
                     extra_states.empty() ? "" : extra_states[0]);
}

}  // namespace

void note_dropped(const Source& source, const Target& target, Conversion& out) {
    const auto& left = out.expressed.dropped_names;
    add_dropped_note(out.notes, left.size(), "tensor", "which the target does not store", left.empty() ? "" : left[0]);
    if (const auto note = source.checkpoint.format->note_dropped)
        note(source, target, out.dialect != nullptr, out.notes);
    if (const auto note = target.format->note_new_state) note(source, target.layout, out.notes);
    note_values(source, *target.format, out.notes);
    note_objects(source, *target.format, out.content.adam.has_value(), out.notes);
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
