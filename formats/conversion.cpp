// SPDX-License-Identifier: Apache-2.0
#include "formats/conversion.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/shard.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace tpx::formats {
namespace {

std::string_view home_dialect(Format format) {
    switch (format) {
        case Format::safetensors:
            return "hf";
        case Format::dcp:
            return "titan";
        case Format::torch_dist:
            return "mcore";
    }
    return "";
}

/// The dialect to write, or null to keep the names as they are.
const Dialect* choose_dialect(const Source& source, const Target& target, std::vector<std::string>& notes) {
    const Reading& reading = source.reading;
    const bool asked = !target.dialect.empty();
    if (target.dialect == "keep") return nullptr;
    const std::string_view wanted = asked ? std::string_view{target.dialect} : home_dialect(target.format);
    if (!asked && source.checkpoint.format == target.format) return nullptr;
    if (reading.family && reading.dialect->name == wanted) return nullptr;
    const bool must = asked || target.format == Format::torch_dist;
    if (reading.family && (reading.complete || must)) {
        if (const Dialect* dialect = reading.family->dialect(wanted)) return dialect;
        throw Error{Exit::usage, "family '{}' has no {} names", reading.family->name, wanted};
    }
    if (must) throw failure("{} names cannot be made: {}", wanted, reading.why_not);
    notes.push_back(reading.family
                        ? "names are kept: the dimensions that other names need are not known (--config gives them)"
                        : fmt::format("names are kept: {}", reading.why_not));
    return nullptr;
}

/// Unknown tensors may go along only where nothing cuts them.
void check_unknown(const Source& source, const Target& target) {
    const Reading& reading = source.reading;
    if (!reading.family || reading.unknown.empty()) return;
    if (source.layout && source.layout->tp == target.layout.tp && source.layout->pp == target.layout.pp) return;
    const std::string& name = source.checkpoint.catalogue.tensors[reading.unknown[0]].name;
    throw failure(
        "tensor '{}': no rule of family '{}' says how it is cut, so tp and pp cannot change; add one with --rules: "
        "[\"{}\", \"CANONICAL\"]",
        name, reading.family->name, name);
}

bool is_real(DType dtype) {
    return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

void set_dtype(Expressed& expressed, std::optional<DType> dtype) {
    if (!dtype) return;
    for (std::size_t t = 0; t < expressed.tensors.size(); ++t) {
        const Meaning& meaning = expressed.reading.meanings[t];
        const bool weight = meaning.role == "weight" && meaning.kind != Meaning::Kind::extra;
        if (weight && is_real(expressed.tensors[t].dtype)) expressed.tensors[t].dtype = *dtype;
    }
}

/// Gives each box to the least loaded of its holders, in a fixed order.
std::vector<Piece> assign(const Expressed& expressed, const Target& target, int layer_count) {
    const std::vector<int> stages =
        target.layout.pp > 1 ? stages_of_layers(target.layout, layer_count) : std::vector<int>{};
    std::vector<std::uint64_t> load(target.layout.ranks(), 0);
    std::vector<Piece> pieces;
    for (std::uint32_t t = 0; t < expressed.tensors.size(); ++t) {
        const Tensor& tensor = expressed.tensors[t];
        for (const Shard& shard : shards(expressed.reading, tensor, expressed.reading.meanings[t], target.layout,
                                         stages, cutting_of(target.format))) {
            const std::vector<int> ranks = holders(target.layout, shard);
            const int owner = *std::ranges::min_element(ranks, {}, [&](int rank) { return load[rank]; });
            load[owner] += static_cast<std::uint64_t>(volume(shard.box) * itemsize(tensor.dtype));
            Piece piece{.tensor = t, .box = shard.box, .rank = owner};
            piece.strides = row_major(sizes(shard.box));
            pieces.push_back(piece);
        }
    }
    return pieces;
}

/// What Megatron's args must say of the new layout.
Config layout_args(const Layout& layout, const Expressed& expressed) {
    const auto whole_number = [](int value) { return ConfigValue{std::int64_t{value}}; };
    const auto or_none = [](int value, bool some) {
        return some ? ConfigValue{std::int64_t{value}} : ConfigValue{nullptr};
    };
    Config args{{"tensor_model_parallel_size", whole_number(layout.tp)},
                {"pipeline_model_parallel_size", whole_number(layout.pp)},
                {"virtual_pipeline_model_parallel_size", or_none(layout.vpp, layout.vpp > 1)},
                {"context_parallel_size", whole_number(layout.cp)},
                {"expert_model_parallel_size", whole_number(layout.ep)},
                {"expert_tensor_parallel_size", whole_number(layout.etp > 0 ? layout.etp : layout.tp)},
                {"data_parallel_size", whole_number(layout.dp)},
                {"world_size", whole_number(layout.ranks())},
                {"transformer_pipeline_model_parallel_size", whole_number(layout.pp)},
                {"decoder_first_pipeline_num_layers", or_none(layout.first.value_or(0), layout.first.has_value())},
                {"decoder_last_pipeline_num_layers", or_none(layout.last.value_or(0), layout.last.has_value())}};
    for (std::size_t t = 0; t < expressed.tensors.size(); ++t) {
        const Meaning& meaning = expressed.reading.meanings[t];
        if (meaning.kind == Meaning::Kind::parameter && meaning.role == "weight" &&
            meaning.rule->expression.parts[0] == "embed")
            args["padded_vocab_size"] = ConfigValue{expressed.tensors[t].shape[0]};
    }
    return args;
}

/// Numbers canonical tensors by name.
class NameNumbers {
public:
    std::uint32_t operator()(const std::string& name) {
        return numbers_.emplace(name, static_cast<std::uint32_t>(numbers_.size())).first->second;
    }
    std::optional<std::uint32_t> find(const std::string& name) const {
        const auto found = numbers_.find(name);
        return found == numbers_.end() ? std::nullopt : std::optional{found->second};
    }

private:
    std::unordered_map<std::string, std::uint32_t> numbers_;
};

/// The pieces of each tensor: [begin, end) of a list sorted by tensor.
std::vector<std::size_t> first_pieces(std::span<const Piece> pieces, std::size_t tensors) {
    std::vector<std::size_t> first(tensors + 1, 0);
    for (const Piece& piece : pieces) ++first[piece.tensor + 1];
    std::partial_sum(first.begin(), first.end(), first.begin());
    return first;
}

void need_whole_bytes(const Tensor& tensor) {
    if (itemsize(tensor.dtype) == 0)
        throw failure("tensor '{}': elements of {} bits ({}) cannot be cut", tensor.name, info(tensor.dtype).bits,
                      name(tensor.dtype));
}

/// A tensor that keeps its name on both sides is canonical itself; where padding differs, what both sides have of it.
void join_by_name(const Source& source, Conversion& out) {
    const Catalogue& from = source.checkpoint.catalogue;
    NameNumbers names;
    for (const Tensor& tensor : from.tensors) names(tensor.name);
    const auto source_first = first_pieces(from.pieces, from.tensors.size());
    const auto target_first = first_pieces(out.draft.pieces, out.draft.tensors.size());
    for (std::uint32_t t = 0; t < out.draft.tensors.size(); ++t) {
        const Tensor& target = out.draft.tensors[t];
        const std::uint32_t s = names.find(target.name).value();
        need_whole_bytes(target);
        Part part = own_part(target);
        for (int k = 0; k < part.shape.size(); ++k) part.shape[k] = std::min(part.shape[k], from.tensors[s].shape[k]);
        out.source_tensors.push_back({target.name, from.tensors[s].dtype, part.shape});
        out.target_tensors.push_back({target.name, target.dtype, part.shape});
        for (std::size_t p = source_first[s]; p < source_first[s + 1]; ++p)
            cut_out(part, from.pieces[p], t, itemsize(from.tensors[s].dtype), out.source_pieces);
        for (std::size_t p = target_first[t]; p < target_first[t + 1]; ++p)
            cut_out(part, out.draft.pieces[p], t, itemsize(target.dtype), out.target_pieces);
    }
}

/// Tensors of different dialects are joined part by part.
void join_by_parts(const Source& source, Conversion& out) {
    NameNumbers names;
    const auto target_first = first_pieces(out.draft.pieces, out.draft.tensors.size());
    for (std::uint32_t t = 0; t < out.draft.tensors.size(); ++t) {
        const Tensor& target = out.draft.tensors[t];
        need_whole_bytes(target);
        for (const Part& part : parts_of(out.expressed.reading, target, out.expressed.reading.meanings[t])) {
            const auto alias = out.expressed.aliases.find(part.name);
            const std::uint32_t number = names(alias == out.expressed.aliases.end() ? part.name : alias->second);
            if (number == out.target_tensors.size())
                out.target_tensors.push_back({part.name, target.dtype, part.shape});
            for (std::size_t p = target_first[t]; p < target_first[t + 1]; ++p)
                cut_out(part, out.draft.pieces[p], number, itemsize(target.dtype), out.target_pieces);
        }
    }
    out.source_tensors = out.target_tensors;
    const Catalogue& from = source.checkpoint.catalogue;
    const auto source_first = first_pieces(from.pieces, from.tensors.size());
    for (std::uint32_t s = 0; s < from.tensors.size(); ++s) {
        for (const Part& part : parts_of(source.reading, from.tensors[s], source.reading.meanings[s])) {
            const auto number = names.find(part.name);
            if (!number) continue;
            out.source_tensors[*number] = {part.name, from.tensors[s].dtype, part.shape};
            for (std::size_t p = source_first[s]; p < source_first[s + 1]; ++p)
                cut_out(part, from.pieces[p], *number, itemsize(from.tensors[s].dtype), out.source_pieces);
        }
    }
}

void locate_all(Checkpoint& checkpoint) {
    std::vector<std::uint32_t> all(checkpoint.catalogue.pieces.size());
    std::iota(all.begin(), all.end(), 0u);
    locate(checkpoint, all);
}

void note_left_out(const Source& source, const Target& target, Conversion& out) {
    const auto say = [&](std::size_t count, std::string_view what, const std::string& example) {
        if (count > 0)
            out.notes.push_back(
                fmt::format("left out: {} {} ('{}'{})", count, what, example, count > 1 ? ", ..." : ""));
    };
    const auto& left = out.expressed.left_out;
    say(left.size(), "tensors that are no weights or that the target does not store", left.empty() ? "" : left[0]);
    const auto& objects = source.checkpoint.catalogue.objects;
    if (source.checkpoint.format != target.format)
        say(objects.size(), fmt::format("objects that {} cannot hold", name(target.format)),
            objects.empty() ? "" : objects[0].name);
}

}  // namespace

Cutting cutting_of(Format format) {
    const bool megatron = format == Format::torch_dist;
    return {.equal = megatron, .by_layer = megatron};
}

Source open_source(const std::filesystem::path& path, std::span<const Family> families, const Config& config) {
    Source source{.checkpoint = open(path)};
    Config merged = source.checkpoint.config;
    for (const auto& [key, value] : config) merged[key] = value;
    in_context([&] { return path.string(); },
               [&] { source.reading = read(source.checkpoint.catalogue.tensors, families, merged); });
    source.layout = detect_layout(source.checkpoint.catalogue, source.reading, cutting_of(source.checkpoint.format));
    return source;
}

Conversion convert(Source& source, const Target& target, std::span<const Family>) {
    Conversion out;
    Catalogue& from = source.checkpoint.catalogue;
    const Dialect* dialect = choose_dialect(source, target, out.notes);
    check_layout(source.reading, target.layout);
    check_unknown(source, target);
    if (target.format == Format::torch_dist && target.layout.fsdp > 1)
        throw Error{Exit::usage,
                    "layout: torch_dist stores tensors whole over data-parallel ranks; give dp= instead of fsdp="};
    Config config = source.reading.config;
    for (const auto& [key, value] : target.config) config[key] = value;
    out.expressed = dialect ? express(source.reading, from.tensors, *dialect, config, target.layout.tp)
                            : repad(source.reading, from.tensors, config, target.layout.tp);
    set_dtype(out.expressed, target.dtype);
    out.content = {.tensors = out.expressed.tensors,
                   .pieces = assign(out.expressed, target, layers(out.expressed.reading, out.expressed.tensors)),
                   .source = &source.checkpoint,
                   .ranks = target.layout.ranks(),
                   .shard_size = target.shard_size};
    if (target.format == Format::torch_dist) out.content.args = layout_args(target.layout, out.expressed);
    out.draft = draft(target.format, out.content);
    locate_all(source.checkpoint);
    dialect ? join_by_parts(source, out) : join_by_name(source, out);
    note_left_out(source, target, out);
    return out;
}

Canonical canonical(Source& source) {
    locate_all(source.checkpoint);
    Canonical out;
    NameNumbers names;
    const Catalogue& from = source.checkpoint.catalogue;
    const auto first = first_pieces(from.pieces, from.tensors.size());
    for (std::uint32_t t = 0; t < from.tensors.size(); ++t) {
        need_whole_bytes(from.tensors[t]);
        for (const Part& part : parts_of(source.reading, from.tensors[t], source.reading.meanings[t])) {
            const std::uint32_t number = names(part.name);
            if (number < out.tensors.size())
                throw failure("tensor '{}': '{}' is stored twice", from.tensors[t].name, part.name);
            out.tensors.push_back({part.name, from.tensors[t].dtype, part.shape});
            out.stored_names.push_back(from.tensors[t].name);
            for (std::size_t p = first[t]; p < first[t + 1]; ++p)
                cut_out(part, from.pieces[p], number, itemsize(from.tensors[t].dtype), out.pieces);
        }
    }
    return out;
}

std::vector<std::filesystem::path> paths(const Catalogue& catalogue) {
    std::vector<std::filesystem::path> all;
    for (const FileEntry& file : catalogue.files) all.push_back(catalogue.directory / file.path);
    return all;
}

}  // namespace tpx::formats
