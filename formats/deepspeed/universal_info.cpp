// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/universal_info.hpp"

#include "lib/core/error.hpp"
#include "lib/core/flat.hpp"

#include <algorithm>

namespace tpx::formats::deepspeed {
namespace {

using torch::Kind;
using torch::Value;

constexpr std::size_t most_patterns = 10000;

std::vector<Pattern> patterns(Value info, std::string_view key) {
    const auto list = info.find(key);
    std::vector<Pattern> all;
    if (!list || list->is_none()) return all;
    if (list->items().size() > most_patterns) throw failure("{} has {} patterns", key, list->items().size());
    for (const Value item : list->items()) all.emplace_back(item.as_string());
    return all;
}

bool any_match(std::span<const Pattern> patterns, std::string_view name) {
    return std::ranges::any_of(patterns, [&](const Pattern& pattern) { return pattern.match(name); });
}

std::vector<Index> indices(Value list) {
    constexpr Index largest = Index{1} << 40;
    std::vector<Index> all;
    for (const Value item : list.items()) {
        if (item.as_int() < 0 || item.as_int() > largest) throw failure("invalid size {}", item.as_int());
        all.push_back(item.as_int());
    }
    return all;
}

void check_alike(std::span<const Shape> locals, int dim) {
    for (const Shape& shape : locals) {
        bool fits = shape.size() == locals[0].size() && dim < shape.size();
        for (int k = 0; fits && k < shape.size(); ++k) fits = k == dim || shape[k] == locals[0][k];
        if (!fits)
            throw failure("slices of shapes {} and {} cannot be joined along axis {}", to_string(locals[0]),
                          to_string(shape), dim);
    }
}

Widths one_width(std::span<const Shape> locals, int dim) {
    std::vector<Index> widths;
    for (const Shape& shape : locals) widths.push_back(shape[dim]);
    return {widths};
}

/// The widths if each slice has two halves; the first is longer if they differ.
Widths half_widths(std::span<const Shape> locals) {
    Widths widths(2);
    for (const Shape& shape : locals) {
        widths[0].push_back((shape[0] + 1) / 2);
        widths[1].push_back(shape[0] / 2);
    }
    return widths;
}

}  // namespace

UniversalInfo::UniversalInfo(Value info) : given_{true} {
    if (!info.is(Kind::dict)) throw failure("universal_checkpoint_info is {}", info.describe());
    if (const auto map = info.find("affine_map"); map && !map->is_none())
        in_context([] { return "affine_map"; }, [&] { maps_ = AffineMaps{*map}; });
    if (const auto list = info.find("autotp_unsupported_parameter_patterns"); list && !list->is_none()) {
        if (!list->is(Kind::dict)) throw failure("autotp_unsupported_parameter_patterns is {}", list->describe());
        for (const auto& [pattern, reason] : list->entries())
            unsupported_.emplace_back(Pattern{pattern.as_string()},
                                      reason.is(Kind::string) ? std::string{reason.as_string()} : reason.describe());
    }
    replicated_ = patterns(info, "tp_replicated_parameter_patterns");
    averaged_ = patterns(info, "parameter_to_average_patterns");
    halved_ = patterns(info, "parameter_with_2_sub_params_cat_dim_0");
    by_row_ = patterns(info, "parameter_with_row_parallelism_patterns");
    vocabulary_ = patterns(info, "vocabulary_parameter_patterns");
    pipeline_ = patterns(info, "pipeline_replicated_parameter_patterns");
    if (const auto size = info.find("original_vocab_size"); size && size->is(Kind::integer)) {
        vocabulary_size_ = size->as_int();
        if (*vocabulary_size_ < 0) throw failure("original_vocab_size is {}", *vocabulary_size_);
    }
    if (const auto list = info.find("parameter_with_sub_params"); list && !list->is_none()) {
        for (const Value entry : list->items()) {
            SubParameters subs;
            for (const Value text : entry.at("patterns").items()) {
                subs.patterns.emplace_back(text.as_string());
                subs.texts.emplace_back(text.as_string());
            }
            const auto shape = entry.at("shape").items();
            const std::int64_t dim = entry.at("partition_dim").as_int();
            if (dim < 0 || dim >= std::min<std::int64_t>(std::ssize(shape), max_rank))
                throw failure("parameter_with_sub_params: axis {} of {}", dim, shape.size());
            subs.dim = static_cast<int>(dim);
            subs.axes = static_cast<int>(std::min<std::size_t>(shape.size(), max_rank + 1));
            if (shape[dim].is(Kind::integer))
                subs.count = shape[dim].as_int();
            else
                subs.sizes = indices(shape[dim]);
            subs_.push_back(std::move(subs));
        }
    }
    if (const auto widths = info.find("sub_param_shard_widths"); widths && widths->is(Kind::dict)) {
        for (const auto& [key, value] : widths->entries()) {
            auto& list = widths_[std::string{key.as_string()}];
            for (const Value item : value.items()) list.push_back(indices(item));
        }
    }
}

std::optional<UniversalInfo> UniversalInfo::of_megatron_names(std::span<const std::pair<std::string, Shape>> names) {
    UniversalInfo info;
    info.given_ = true;
    for (const char* text : {".*position_embeddings.weight$", ".*layernorm.weight$", ".*layernorm.bias$",
                             ".*self_attention.dense.bias$", ".*mlp.dense_4h_to_h.bias$", "\\d+.weight$", "\\d+.bias$"})
        info.replicated_.emplace_back(text);
    for (const char* text : {".*self_attention.dense.weight$", ".*mlp.dense_4h_to_h.weight$"})
        info.by_row_.emplace_back(text);
    std::vector<Pattern> columns;
    for (const char* text : {".*word_embeddings.weight$", ".*query_key_value.weight$", ".*query_key_value.bias$",
                             ".*mlp.dense_h_to_4h.weight$", ".*mlp.dense_h_to_4h.bias$"})
        columns.emplace_back(text);
    Index rows = 0;
    Index width = 0;
    for (const auto& [name, shape] : names) {
        if (!any_match(columns, name) && !any_match(info.by_row_, name) && !any_match(info.replicated_, name))
            return std::nullopt;
        // The name of a pipeline's final norm is only its layer's number, like that of an output layer.
        if (std::ranges::count(name, '.') == 1 && shape.size() > 1) return std::nullopt;
        if (name.ends_with("mlp.dense_h_to_4h.weight") && shape.size() == 2) rows = shape[0];
        if (name.ends_with("mlp.dense_4h_to_h.weight") && shape.size() == 2) width = shape[1];
    }
    if (rows > 0 && rows == 2 * width)  // gate and up in one tensor
        for (const char* text : {".*mlp.dense_h_to_4h.weight$", ".*mlp.dense_h_to_4h.bias$"})
            info.halved_.emplace_back(text);
    return info;
}

bool UniversalInfo::pipeline_replicated(std::string_view name) const {
    // DeepSpeed uses this prefix for modules that a TiedLayerSpec shares between stages.
    return name.starts_with("tied_modules.") || any_match(pipeline_, name);
}

Widths UniversalInfo::widths_of(const SubParameters& subs, const std::string& pattern,
                                std::span<const Shape> locals) const {
    const auto ranks = static_cast<Index>(locals.size());
    const auto known = widths_.find(pattern);
    if (known != widths_.end()) {
        for (const auto& widths : known->second)
            if (std::ssize(widths) != ranks) throw failure("{} widths for {} tensor ranks", widths.size(), ranks);
        return known->second;
    }
    std::vector<Index> sizes = subs.sizes;
    if (sizes.empty()) {
        Index all = 0;
        for (const Shape& shape : locals) all += shape[subs.dim];
        if (subs.count <= 0 || subs.count > all || all % subs.count != 0)
            throw failure("{} sub-parameters in {} rows", subs.count, all);
        sizes.assign(static_cast<std::size_t>(subs.count), all / subs.count);
    }
    Widths widths;
    for (const Index size : sizes) {
        if (size % ranks != 0) throw failure("a sub-parameter of {} over {} tensor ranks", size, ranks);
        widths.emplace_back(locals.size(), size / ranks);
    }
    return widths;
}

Slicing UniversalInfo::slicing(const std::string& name, std::span<const Shape> locals) const {
    Slicing result = slicing_of_patterns(name, locals);
    if (!maps_.contains(name)) return result;
    maps_.check(name, result, locals);
    result.cat_dim.reset();  // like ds_to_universal, which records splits of parameters without a map only
    result.halves = result.sub_parameters = false;
    return result;
}

Slicing UniversalInfo::slicing_of_patterns(const std::string& name, std::span<const Shape> locals) const {
    const bool single = locals.size() == 1;
    if (!single && !given_)
        throw failure(
            "{} tensor ranks hold slices of it, but there is no universal_checkpoint_info, which is needed to join "
            "them (trainers pass it to save_checkpoint in client_state; Megatron-DeepSpeed with "
            "--universal-checkpoint)",
            locals.size());
    for (const auto& [pattern, reason] : unsupported_)
        if (!single && pattern.match(name)) throw failure("DeepSpeed cannot join its slices ({})", reason);
    Slicing result;
    const auto subs = std::ranges::find_if(subs_, [&](const SubParameters& s) { return any_match(s.patterns, name); });
    if (any_match(replicated_, name)) {
        for (const Shape& shape : locals)
            if (shape != locals[0])
                throw failure("shapes {} and {} of what should be replicas", to_string(locals[0]), to_string(shape));
        result = unsliced(locals[0]);
        result.blocks.resize(locals.size());
        result.replicated = true;
    } else if (any_match(averaged_, name)) {
        if (!single) throw failure("is averaged over {} tensor ranks, which tpx does not support", locals.size());
        result = unsliced(locals[0]);
    } else if (any_match(halved_, name)) {
        check_alike(locals, 0);
        result = concatenate_slices(locals, 0, half_widths(locals));
        result.halves = true;
        result.cat_dim = 0;
    } else if (subs != subs_.end()) {
        check_alike(locals, subs->dim);
        if (locals[0].size() != subs->axes)
            throw failure("shape {} does not have the {} axes of its sub-parameters", to_string(locals[0]), subs->axes);
        const auto which = std::ranges::find_if(subs->patterns, [&](const Pattern& p) { return p.match(name); });
        result = concatenate_slices(locals, subs->dim,
                                    widths_of(*subs, subs->texts[which - subs->patterns.begin()], locals));
        result.sub_parameters = true;
    } else {
        const int dim = any_match(by_row_, name) ? 1 : 0;
        if (!single) check_alike(locals, dim);
        result = single ? unsliced(locals[0]) : concatenate_slices(locals, dim, one_width(locals, dim));
        result.cat_dim = dim;
    }
    if (any_match(vocabulary_, name) && maps_.contains(name)) {
        result.vocabulary = true;  // AutoTP does not pad it, and counts the rows of the first one only
    } else if (any_match(vocabulary_, name)) {
        if (!vocabulary_size_) throw failure("its padding is unknown: original_vocab_size is missing");
        cut_rows(result, *vocabulary_size_);
        result.vocabulary = true;
    }
    return result;
}

bool UniversalInfo::is_vocabulary(const std::string& name) const {
    return any_match(vocabulary_, name) && !maps_.contains(name);
}

Widths UniversalInfo::cut_widths(const std::string& name, const Shape& whole, int ranks, int& dim) const {
    const auto even = [&](Index size) {
        if (size % ranks != 0)
            throw Error{Exit::usage, "layout: tp={} does not divide axis {} (size {} of shape {})",
                        ranks,       dim,
                        size,        to_string(whole)};
        return std::vector<Index>(static_cast<std::size_t>(ranks), size / ranks);
    };
    const auto subs = std::ranges::find_if(subs_, [&](const SubParameters& s) { return any_match(s.patterns, name); });
    dim = subs != subs_.end() ? subs->dim : !any_match(halved_, name) && any_match(by_row_, name) ? 1 : 0;
    if (dim >= whole.size()) throw failure("tensor '{}': shape {} has no axis {} to cut", name, to_string(whole), dim);
    const Index size = whole[dim];
    if (any_match(halved_, name)) return {even((size + 1) / 2), even(size / 2)};
    if (subs == subs_.end()) return {even(size)};
    for (const std::string& text : subs->texts)
        if (ranks > 1 && widths_.contains(text))
            throw Error{Exit::usage,
                        "layout: tp={} is impossible for a tensor that is split unevenly (sub_param_shard_widths)",
                        ranks};
    std::vector<Index> sizes = subs->sizes;
    if (sizes.empty() && subs->count > 0) sizes.assign(static_cast<std::size_t>(subs->count), size / subs->count);
    Widths widths;
    for (const Index part : sizes) widths.push_back(even(part));
    return widths;
}

std::pair<Slicing, std::vector<Shape>> UniversalInfo::cut(const std::string& name, const Shape& whole, int ranks,
                                                          Index rows) const {
    Shape padded = whole;
    const bool vocabulary = is_vocabulary(name);
    if (vocabulary) padded[0] = rows;
    std::vector<Shape> locals(static_cast<std::size_t>(ranks), padded);
    Slicing result;
    if (ranks == 1 || any_match(replicated_, name) || any_match(averaged_, name)) {
        result = unsliced(padded);
        result.blocks.resize(locals.size(), result.blocks[0]);
        result.replicated = ranks > 1;
    } else {
        int dim = 0;
        const Widths widths = cut_widths(name, padded, ranks, dim);
        for (std::size_t rank = 0; rank < locals.size(); ++rank) {
            locals[rank][dim] = 0;
            for (const auto& of_rank : widths) locals[rank][dim] += of_rank[rank];
        }
        result = concatenate_slices(locals, dim, widths);
    }
    if (vocabulary) cut_rows(result, whole[0]);
    return {std::move(result), std::move(locals)};
}

}  // namespace tpx::formats::deepspeed
