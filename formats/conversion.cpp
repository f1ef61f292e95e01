// SPDX-License-Identifier: Apache-2.0
#include "formats/conversion.hpp"

#include "formats/adapter_config.hpp"
#include "formats/addends.hpp"
#include "formats/canonical_pieces.hpp"
#include "formats/config_file.hpp"
#include "formats/conversion_draft.hpp"
#include "formats/deepspeed/excluded.hpp"
#include "formats/deepspeed/missing_weights.hpp"
#include "formats/dialect_choice.hpp"
#include "formats/folder_files.hpp"
#include "formats/join.hpp"
#include "formats/kept_names.hpp"
#include "formats/left_out.hpp"
#include "formats/megatron/common_of_dcp.hpp"
#include "formats/megatron/common_state.hpp"
#include "formats/megatron/fit_masters.hpp"
#include "formats/megatron/legacy.hpp"
#include "formats/megatron/stages.hpp"
#include "formats/megatron/unpack.hpp"
#include "formats/missing_parts.hpp"
#include "formats/model_choice.hpp"
#include "formats/quantized.hpp"
#include "formats/roles.hpp"
#include "formats/source_places.hpp"
#include "formats/target_names.hpp"
#include "formats/target_states.hpp"
#include "formats/unknown_tensors.hpp"
#include "formats/unscaled.hpp"
#include "lib/core/error.hpp"
#include "lib/core/in_path.hpp"
#include "lib/layout/shard_map.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace tpx::formats {
namespace {

/// Whether weights that DeepSpeed keeps as masters only are weights in the target, too.
bool needs_weights(const Source& source, const Target& target) {
    const bool kept = is_deepspeed(target.format) || is_megatron(target.format) || is_torch(target.format);
    return is_deepspeed(source.checkpoint.format) && (kept || target.format == Format::hdf5);
}

/// Gives each box to the least loaded of its holders, in a fixed order. If the target is split by holders, `file` of a
/// piece is the number of its holders among those that its rank writes for.
std::vector<Piece> assign(const Expressed& expressed, const Target& target, int layer_count) {
    const std::vector<int> stages =
        target.layout.pp > 1 ? stages_of_layers(target.layout, layer_count) : std::vector<int>{};
    const ShardMap map{target.layout, cutting_of(target.format), stages};
    const Sharing sharing = stored_sharing(target.layout);
    std::vector<std::uint64_t> load(target.layout.ranks(), 0);
    const bool split = target.split_by_holders && (target.format == Format::dcp || target.format == Format::torch_dist);
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

/// The tensors that the target stores: renamed, padded for another tp, or just those of the source.
Expressed target_tensors(const Source& source, const Target& target, const Dialect* dialect, const Config& config) {
    const std::vector<Tensor>& tensors = source.checkpoint.catalogue.tensors;
    if (respells_states(source, target, dialect)) return with_states_respelt(source, target);
    if (is_deepspeed(target.format) && is_deepspeed(source.checkpoint.format))
        return {.reading = source.reading, .tensors = tensors};
    if (dialect)
        return express(source.reading, tensors, *dialect, config, target.layout.tp, spelling(source, target, config));
    if (source.layout && source.layout->tp == target.layout.tp) return {.reading = source.reading, .tensors = tensors};
    return repad(source.reading, tensors, config, target.layout.tp);
}

/// torch_dist does not tell what stages its layers are on, but args do. Those that cannot be are no concern here.
void set_uneven_stages(Source& source) {
    const Reading& reading = source.reading;
    if (!source.layout || !reading.family) return;
    const int count = layers(reading, source.checkpoint.catalogue.tensors);
    try {
        Layout dealt = *source.layout;
        megatron::set_stages(reading.config, count, dealt);
        stages_of_layers(dealt, count);
        source.layout = dealt;
    } catch (const Error&) {
    }
}

/// Megatron's distributed optimizer is what others call ZeRO 1.
void set_zero(Source& source) {
    const auto is_state = [](const Meaning& meaning) {
        return meaning.kind == Meaning::Kind::parameter && meaning.role != "weight";
    };
    if (source.layout && is_megatron(source.checkpoint.format) && source.layout->dp * source.layout->cp > 1 &&
        holds(source.reading.config, "use_distributed_optimizer") &&
        std::ranges::any_of(source.reading.meanings, is_state))
        source.layout->zero = 1;
}

/// Megatron's distributed optimizer is its stage 1 of ZeRO; its checkpoints know no other stage.
void set_distributed(Target& target) {
    if (!is_megatron(target.format) || target.layout.zero == 0) return;
    constexpr const char* key = "use_distributed_optimizer";
    if (target.layout.zero > 1)
        throw Error{Exit::usage, "layout: zero={}: Megatron shards optimizer state only as zero=1 does",
                    target.layout.zero};
    if (target.config.contains(key) && !holds(target.config, key))
        throw Error{Exit::usage, "layout: zero=1 contradicts --set {}=false", key};
    target.config[key] = true;
}

}  // namespace

bool is_of_writing(std::string_view key) {
    return key == "ddp_bucket_size" || key == "overlap_grad_reduce" || key == "pipeline_model_parallel_layout";
}

Cutting cutting_of(Format format) { return {.equal = is_megatron(format), .by_layer = is_megatron(format)}; }

Source open_source(const std::filesystem::path& path, std::span<const Family> families, const Config& config) {
    Source source{.checkpoint = open(path), .reading = {}, .layout = {}, .families = families};
    const auto given = config.find(config_json_key);
    if (given != config.end() && source.checkpoint.config_json.empty())
        source.checkpoint.config_json = spelled(given->second);
    // Megatron's checkpoints without args, such as those of adapters, may have the config.json that tpx wrote.
    if (is_megatron(source.checkpoint.format) && !source.checkpoint.config.contains("num_layers") &&
        !source.checkpoint.config_json.empty())
        source.checkpoint.config.merge(parse_config_json(source.checkpoint.config_json));
    Config merged = source.checkpoint.config;
    for (const auto& [key, value] : config) {
        if (key == config_json_key) continue;
        // What args tell of how the checkpoint was written is known; to set it concerns what will be.
        if (!is_of_writing(key) || !merged.contains(key)) merged[key] = value;
    }
    in_path(path.string(), [&] {
        if (source.checkpoint.rank_files) put_together(source.checkpoint, families, merged);
        if (source.checkpoint.format == Format::torch_dist) unpack_optimizer(source.checkpoint, families, merged);
        source.reading = read_by_names(source.checkpoint, families, merged);
    });
    note_unknown(source);
    source.layout = source.checkpoint.layout;
    if (!source.layout) {
        source.layout =
            detect_layout(source.checkpoint.catalogue, source.reading, cutting_of(source.checkpoint.format));
        if (source.checkpoint.format == Format::torch_dist) set_uneven_stages(source);
    }
    set_zero(source);
    return source;
}

Conversion convert(Source& source, const Target& given) {
    Conversion out;
    Target target = given;
    set_distributed(target);
    if (needs_values(source, target)) dequantize(source, target.dtype);
    if (const auto& quantised = source.checkpoint.quantised; !quantised.empty())
        throw failure("tensor '{}' and {} more are quantised ({}): their blocks cannot be moved", quantised[0].name,
                      quantised.size() - 1, quantised[0].type);
    Catalogue& from = source.checkpoint.catalogue;
    if (is_megatron(target.format)) megatron::restore_common(source.checkpoint);
    settle_folder_files(source.checkpoint, target.format);
    settle_adapter(source, target);
    Config config = source.reading.config;
    for (const auto& [key, value] : target.config) config[key] = value;
    const ModelChoice choice =
        choose_model(source, target, choose_dialect(source, target, out.notes), config, out.notes);
    const Dialect* dialect = choice.dialect;
    // Without rules nothing is cut anew, so what is not asked to change need not be judged.
    const bool same_cuts =
        source.layout && source.layout->tp == target.layout.tp && source.layout->pp == target.layout.pp;
    const bool own_cuts = is_deepspeed(target.format) && is_deepspeed(source.checkpoint.format);
    if (dialect)
        if (std::string note = change_addends(source, *dialect, target.dtype); !note.empty())
            out.notes.push_back(std::move(note));
    check_deepspeed(source, target);
    check_excluded(source, target, out.notes);
    check_whole_model(source, target);
    if (dialect)
        dialect = (out.dialect = std::make_shared<const Dialect>(with_roles_of(target.format, *dialect))).get();
    if (!own_cuts && (source.reading.family || !same_cuts)) check_layout(source.reading, target.layout);
    check_states(source, target, dialect);
    check_dtype(source, target);
    if (!own_cuts) check_unscaled(source, target, dialect);
    if (!own_cuts) check_unknown(source, target, out.notes);
    const auto made = needs_weights(source, target) ? add_missing_weights(source) : std::map<std::string, DType>{};
    if (!own_cuts && dialect && !made.empty() && !target.dtype) target.dtype = made.begin()->second;
    if (is_megatron(target.format) && target.layout.fsdp > 1)
        throw Error{Exit::usage,
                    "layout: Megatron stores tensors whole over data-parallel ranks; give dp= instead of fsdp="};
    config = source.reading.config;
    // The vocabulary is padded and layers are named again as Megatron's args, which DCP kept, say.
    if (is_megatron(target.format) && source.checkpoint.format == Format::dcp && source.checkpoint.common) {
        const Config args = megatron::args_of(*source.checkpoint.common);
        for (const char* key : {"make_vocab_size_divisible_by", "transformer_impl"})
            if (const auto kept = args.find(key); kept != args.end()) config.insert(*kept);
    }
    // A distributed optimizer is what comes closest to state that another framework has cut over data ranks.
    if (dialect && is_megatron(target.format)) config["use_distributed_optimizer"] = true;
    for (const auto& [key, value] : target.config) config[key] = value;
    if (is_megatron(source.checkpoint.format) && target.format == Format::torch_dist &&
        target.config.contains("use_distributed_optimizer"))
        spell_masters(source.checkpoint, holds(target.config, "use_distributed_optimizer"));
    out.expressed = target_tensors(source, target, dialect, config);
    if (!dialect && is_megatron(source.checkpoint.format) && is_megatron(target.format))
        megatron::fit_masters(out.expressed, holds(config, "use_distributed_optimizer"), target.dtype, out.notes);
    set_dtype(out.expressed, target.dtype);
    if (own_cuts) keep_names(target, out.expressed);
    if (!target.dtype) set_dtypes(out.expressed, made);
    leave_out_seeds(source, target, out.expressed);
    std::vector<View> views = take_views(source, target, dialect, out.expressed);
    out.content = {.tensors = out.expressed.tensors,
                   .pieces = is_deepspeed(target.format)
                                 ? std::vector<Piece>{}
                                 : assign(out.expressed, target, layers(out.expressed.reading, out.expressed.tensors)),
                   .source = &source.checkpoint,
                   .ranks = target.layout.ranks(),
                   .layout = target.layout,
                   .shard_size = target.shard_size,
                   .split_by_holders = target.split_by_holders,
                   .views = std::move(views)};
    if (!dialect && target.format == Format::dcp && respells_states(source, target, dialect) && !has_moments(source))
        out.notes.push_back("dropped param_groups settings, which are converted only for optimizers like Adam");
    if (dialect || (target.format != Format::hdf5 && respells_states(source, target, dialect)))
        carry_adam(source, target, out);
    else if (is_torch(target.format) && (is_deepspeed(source.checkpoint.format) || source.checkpoint.common))
        out.content.adam = adam_of(source);
    check_names(target.format, out.content.tensors);
    const auto join = [&] {
        locate_all(source.checkpoint);
        dialect ? join_by_parts(source, out) : join_by_name(source, out);
        out.source_pieces = canonical_pieces(from.tensors, from.pieces, out.source_parts);
    };
    if (aligns_payloads(target.format)) {
        out.draft.tensors = out.content.tensors;  // as the draft will have them
        join();
        set_places(from, out);
    }
    out.draft = make_draft(source, target, {dialect, choice.config_json}, config, out);
    if (!aligns_payloads(target.format)) join();
    out.content.source = nullptr;  // the source may move from here on
    if (dialect) out.dropped_copies = dropped_copies(source.checkpoint, source.reading);
    out.target_pieces = canonical_pieces(out.draft.tensors, out.draft.pieces, out.target_parts);
    note_left_out(source, target, out);
    note_split_files(target, out);
    return out;
}

void adopt_dims(Source& source, const Source& other) {
    // Each checkpoint was read with families of its own, so they are told apart by name.
    if (source.reading.family && other.reading.family && source.reading.family->name == other.reading.family->name)
        add_dims(source.reading, other.reading.dims);
}

std::vector<SourceFile> paths(const Catalogue& catalogue) {
    std::vector<SourceFile> all;
    for (const FileEntry& file : catalogue.files) all.push_back({catalogue.directory / file.path, file.coding});
    return all;
}

}  // namespace tpx::formats
