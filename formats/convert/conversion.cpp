// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/conversion.hpp"
#include "formats/adapters/adapter_config.hpp"
#include "formats/convert/addends.hpp"
#include "formats/convert/block_offsets.hpp"
#include "formats/convert/canonical.hpp"
#include "formats/convert/canonical_pieces.hpp"
#include "formats/convert/conversion_draft.hpp"
#include "formats/convert/conversion_notes.hpp"
#include "formats/convert/dialect_choice.hpp"
#include "formats/convert/held_boxes.hpp"
#include "formats/convert/match_tensors.hpp"
#include "formats/convert/missing_parts.hpp"
#include "formats/convert/missing_weights.hpp"
#include "formats/convert/model_choice.hpp"
#include "formats/convert/rename_optimizer_state.hpp"
#include "formats/convert/source_config.hpp"
#include "formats/convert/target_names.hpp"
#include "formats/convert/target_states.hpp"
#include "formats/convert/unknown_tensors.hpp"
#include "formats/convert/unscaled.hpp"
#include "formats/convert/virtual_node_state.hpp"
#include "formats/driver.hpp"
#include "formats/folder_files.hpp"
#include "formats/quantized/quantized.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/framework_limits.hpp"
#include "lib/layout/shard_map.hpp"

#include <algorithm>
#include <map>

namespace tpx::formats {
namespace {

/// Whether the target stores weights that DeepSpeed may store only as masters.
bool needs_weights(const Source& source, const Target& target) {
    return source.checkpoint.format->has_param_groups && target.format->keeps_masters;
}

ShardMap shard_map_of(const Target& target, int layer_count) {
    const std::vector<int> stages =
        target.layout.pp > 1 ? stages_of_layers(target.layout, layer_count) : std::vector<int>{};
    return {target.layout, cutting_of(target.format), stages};
}

/// Assigns each box to its least loaded holder, deterministically. If the target is split by holders, `file` of a piece
/// identifies its set of holders among those that its rank writes files for.
std::vector<Piece> assign(const ExpressedState& expressed, const Target& target, const ShardMap& map) {
    const Sharing sharing = stored_sharing(target.layout);
    std::vector<std::uint64_t> load(target.layout.ranks(), 0);
    const bool split = target.split_by_holders && target.format->splits_by_holders;
    std::vector<std::map<std::vector<int>, std::uint32_t>> files(target.layout.ranks());
    std::vector<Piece> pieces;
    for (std::uint32_t t = 0; t < expressed.tensors.size(); ++t) {
        const Tensor& tensor = expressed.tensors[t];
        for (const Shard& shard : map.shards(expressed.reading, tensor, expressed.reading.meanings[t], sharing)) {
            const std::vector<int> ranks = map.ranks(shard, sharing);
            const int owner = *std::ranges::min_element(ranks, {}, [&](int rank) { return load[rank]; });
            load[owner] += static_cast<std::uint64_t>(volume(shard.box) * itemsize(tensor.dtype));
            Piece piece{.tensor = t, .box = shard.box, .rank = owner};
            piece.strides = row_major(sizes(shard.box));
            if (split) piece.file = files[owner].try_emplace(ranks, files[owner].size()).first->second;
            pieces.push_back(piece);
        }
    }
    return pieces;
}

/// Whether both sides are split by parameter groups, so that no rules are needed to reshard them.
bool reshards_param_groups(const Source& source, const Target& target) {
    return source.checkpoint.format->has_param_groups && target.format->has_param_groups;
}

/// The tensors that the target stores: renamed, padded for another tp, or the same as in the source.
ExpressedState target_tensors(const Source& source, const Target& target, const Dialect* dialect,
                              const Config& config) {
    const std::vector<Tensor>& tensors = source.checkpoint.catalogue.tensors;
    if (renames_optimizer_state(source, target, dialect)) return rename_optimizer_state(source, target);
    if (reshards_param_groups(source, target)) return {.reading = source.reading, .tensors = tensors};
    if (dialect)
        return express(source.reading, tensors, *dialect, config, target.layout.tp, name_tags(source, target, config));
    if (source.layout && source.layout->tp == target.layout.tp) return {.reading = source.reading, .tensors = tensors};
    return repad(source.reading, tensors, config, target.layout.tp);
}

/// The steps of convert(), in the order in which they must run.
class Converter {
public:
    Converter(Source& source, const Target& given) : source_{source}, target_{given} {
        if (const auto settle = target_.format->complete_target) settle(target_);
    }

    Conversion run() {
        settle_source();
        choose_names();
        check();
        settle_settings();
        express_tensors();
        fill_content();
        carry_optimizer();
        check_target_names(target_.format, out_.content.tensors);
        join_and_draft();
        note_dropped();
        return std::move(out_);
    }

private:
    Format source_format() const { return source_.checkpoint.format; }
    bool reshards_partitions() const { return reshards_param_groups(source_, target_); }

    /// Dequantizes the source if the target stores plain values, restores state that the target's format kept in the
    /// source, and decides which other files are copied.
    void settle_source() {
        check_plain_casts(source_, target_);
        if (needs_values(source_, target_)) {
            if (std::string note = dequantization_note(source_, target_); !note.empty())
                out_.notes.push_back(std::move(note));
            dequantize(source_, target_.dtype);
        }
        if (const auto& opaque = source_.checkpoint.opaque; !opaque.empty())
            throw failure("tensor '{0}': is quantized ({2}): its blocks cannot be moved (others: {1})", opaque[0].name,
                          opaque.size() - 1, opaque[0].type);
        if (const auto restore = target_.format->restore) restore(source_.checkpoint);
        carry_folder_files(source_.checkpoint, target_.format);
        prepare_adapter(source_, target_);
    }

    /// Chooses the dialect of the new names; null if the tensors keep their names.
    void choose_names() {
        Config config = source_.reading.config;
        for (const auto& [key, value] : target_.config) config[key] = value;
        check_settings(config);
        const Dialect* dialect = choose_dialect(source_, target_, out_.notes);
        const std::string own = source_config_json(source_, target_);
        const bool to_transformers = dialect && dialect->name == "hf" && source_.reading.dialect->name == "mcore";
        if (to_transformers && !own.empty() && source_.reading.complete) zeros_ = drop_unknown_biases(source_, own);
        choice_ = choose_model(source_, target_, dialect, config, out_.notes);
        if (choice_.dialect == nullptr) return;
        if (std::string note = change_addends(source_, *choice_.dialect, target_.dtype); !note.empty())
            out_.notes.push_back(std::move(note));
    }

    /// Rejects config.json settings that Megatron does not support, before a missing Megatron name of their parameters
    /// would be reported as the cause.
    void check_settings(const Config& config) const {
        Reading reading = source_.reading;
        const std::string_view wanted = target_.dialect.empty() ? target_.format->dialect : target_.dialect;
        if (wanted != "mcore" || reading.source() != "hf" || (reading.dialect && reading.dialect->name == wanted))
            return;
        if (!reading.family) {
            // Such a setting may be why a tensor required by the family of model_type is missing.
            if (!reading.why_not.ends_with("is missing")) return;
            const auto type = config.find("model_type");
            const auto* text = type == config.end() ? nullptr : std::get_if<std::string>(&type->second);
            const auto number = text ? source_.families.of_type(*text) : std::nullopt;
            if (!number) return;
            reading.family = &source_.families[*number];
        }
        check_framework_limits({.reading = std::move(reading), .tensors = source_.checkpoint.catalogue.tensors},
                               std::string{wanted}, config);
    }

    void check() {
        if (target_.format->check_target != nullptr) target_.format->check_target(source_, target_);
        if (const auto check_complete = source_format()->check_complete) check_complete(source_, target_, out_.notes);
        check_whole_model(source_, target_);
        check_virtual_node_state(source_, target_, out_.notes);
        if (choice_.dialect != nullptr) {
            out_.dialect =
                std::make_shared<const Dialect>(with_state_names(target_.format->state_names, *choice_.dialect));
            choice_.dialect = out_.dialect.get();
        }
        // Without rules no tensor is split differently, so the layout is checked only if tp or pp changes.
        const bool same_cuts =
            source_.layout && source_.layout->tp == target_.layout.tp && source_.layout->pp == target_.layout.pp;
        if (!reshards_partitions() && (source_.reading.family || !same_cuts))
            check_layout(source_.reading, target_.layout);
        check_states(source_, target_, choice_.dialect);
        check_dtype(source_, target_);
        if (!reshards_partitions()) check_unscaled(source_, target_, choice_.dialect);
        if (!reshards_partitions()) check_unknown(source_, target_, out_.notes);
        master_only_dtypes_ =
            needs_weights(source_, target_) ? add_missing_weights(source_) : std::map<std::string, DType>{};
        if (!reshards_partitions() && choice_.dialect != nullptr && !master_only_dtypes_.empty() && !target_.dtype)
            target_.dtype = master_only_dtypes_.begin()->second;
    }

    /// Sets the configuration that determines the names and padding of the new tensors.
    void settle_settings() {
        config_ = source_.reading.config;
        for (const auto& [key, value] : target_.config) config_[key] = value;
        if (const auto settle = target_.format->complete_config)
            settle(source_, target_, choice_.dialect != nullptr, config_);
    }

    void express_tensors() {
        out_.expressed = target_tensors(source_, target_, choice_.dialect, config_);
        const bool same_names = choice_.dialect == nullptr && source_format()->framework == target_.format->framework;
        if (const auto fit = target_.format->adapt_states; fit != nullptr && same_names)
            fit(out_.expressed, config_, target_.dtype, out_.notes);
        set_dtype(out_.expressed, target_);
        if (reshards_partitions()) keep_names(target_, out_.expressed);
        if (!target_.dtype) set_dtypes(out_.expressed, master_only_dtypes_);
        drop_unsupported(source_, target_, out_.expressed);
    }

    /// Sets the pieces of the new checkpoint: which rank writes which boxes.
    void fill_content() {
        std::vector<TensorView> views = take_views(source_, target_, choice_.dialect, out_.expressed);
        std::vector<Piece> pieces;
        if (!target_.format->has_param_groups) {
            const ShardMap map = shard_map_of(target_, layers(out_.expressed.reading, out_.expressed.tensors));
            pieces = target_.held ? held_boxes(source_, out_, target_, map) : assign(out_.expressed, target_, map);
        }
        out_.content = {.tensors = out_.expressed.tensors,
                        .pieces = std::move(pieces),
                        .source = &source_.checkpoint,
                        .ranks = target_.layout.ranks(),
                        .layout = target_.layout,
                        .shard_size = target_.shard_size,
                        .split_by_holders = target_.split_by_holders,
                        .views = std::move(views),
                        .held = target_.held};
    }

    /// Whether the target gets both moments of Adam. Optimizers with one of them, such as Lion, have other settings.
    bool stores_both_moments() const {
        const auto has = [&](Role role) {
            return std::ranges::any_of(out_.expressed.reading.meanings,
                                       [&](const Meaning& meaning) { return meaning.role == role; });
        };
        return has(Role::exp_avg) && has(Role::exp_avg_sq);
    }

    /// Carries over optimizer settings.
    void carry_optimizer() {
        const bool respells = renames_optimizer_state(source_, target_, choice_.dialect);
        const StateNames names = target_.format->state_names;
        if (choice_.dialect != nullptr || (names != StateNames::by_parameter && respells && stores_both_moments()))
            carry_adam(source_, target_, out_);
        else if (target_.format->values == ValueStorage::one_file &&
                 (source_format()->has_param_groups || source_.checkpoint.common))
            out_.content.adam = adam_of(source_);
    }

    /// Maps each part of the new tensors to a part of the source.
    void join() {
        locate_all(source_.checkpoint);
        choice_.dialect != nullptr ? match_by_parts(source_, out_) : match_by_name(source_, out_);
        const Catalogue& from = source_.checkpoint.catalogue;
        out_.source_pieces = canonical_pieces(from.tensors, from.pieces, out_.source_parts);
    }

    void join_and_draft() {
        const bool aligned = target_.format->aligns_payloads;
        if (aligned) {
            out_.draft.tensors = out_.content.tensors;  // as the draft will have them
            join();
            set_block_offsets(source_.checkpoint.catalogue, out_);
        }
        out_.draft = make_draft(source_, target_, choice_, config_, out_);
        if (!aligned) join();
        out_.content.source = nullptr;  // the source may move from here on
        out_.target_pieces = canonical_pieces(out_.draft.tensors, out_.draft.pieces, out_.target_parts);
    }

    void note_dropped() {
        if (choice_.dialect != nullptr) {
            out_.dropped_copies = dropped_copies(source_.checkpoint, source_.reading);
            for (DroppedCopy& tie : dropped_ties(source_.checkpoint, source_.reading, out_.expressed))
                out_.dropped_copies.push_back(std::move(tie));
        }
        note_copies();
        note_zeros();
        formats::note_dropped(source_, target_, out_);
        note_split_files(target_, out_);
    }

    /// Adds a note about dropped copies with names of their own, such as the embedding in multi-token prediction
    /// layers.
    void note_copies() {
        const auto& tensors = source_.checkpoint.catalogue.tensors;
        std::vector<const DroppedCopy*> named;
        for (const DroppedCopy& copy : out_.dropped_copies)
            if (copy.kept != copy.dropped && is_copy(source_.reading.meanings[copy.dropped])) named.push_back(&copy);
        if (named.empty()) return;
        out_.notes.push_back(fmt::format("dropped {} with the same values as others ('{}' is '{}'{})",
                                         counted(named.size(), "tensor"), tensors[named[0]->dropped].name,
                                         tensors[named[0]->kept].name, named.size() > 1 ? ", ..." : ""));
    }

    void note_zeros() {
        if (zeros_.empty()) return;
        const auto& tensors = source_.checkpoint.catalogue.tensors;
        for (const DroppedCopy& zero : zeros_) std::erase(out_.expressed.dropped_names, tensors[zero.dropped].name);
        out_.notes.push_back(fmt::format("dropped {} of zeros: biases that the model of config.json lacks ('{}'{})",
                                         counted(zeros_.size(), "tensor"), tensors[zeros_[0].dropped].name,
                                         zeros_.size() > 1 ? ", ..." : ""));
        out_.dropped_copies.insert(out_.dropped_copies.end(), zeros_.begin(), zeros_.end());
    }

    Source& source_;
    Target target_;
    ModelChoice choice_{};
    std::vector<DroppedCopy> zeros_;  // biases that the target does not have
    Config config_;
    std::map<std::string, DType> master_only_dtypes_;  // dtypes of weights that the source stores only as masters
    Conversion out_;
};

}  // namespace

Conversion convert(Source& source, const Target& target) { return Converter{source, target}.run(); }

}  // namespace tpx::formats
