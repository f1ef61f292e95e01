// SPDX-License-Identifier: Apache-2.0
#include "formats/conversion.hpp"

#include "formats/model_config.hpp"
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

void need_whole_bytes(const Tensor& tensor) {
    if (itemsize(tensor.dtype) == 0)
        throw failure("tensor '{}': elements of {} bits ({}) cannot be cut", tensor.name, info(tensor.dtype).bits,
                      name(tensor.dtype));
}

/// A tensor that keeps its name on both sides is canonical itself; where padding differs, what both sides have of it.
void join_by_name(const Source& source, Conversion& out) {
    const std::vector<Tensor>& from = source.checkpoint.catalogue.tensors;
    NameNumbers names;
    for (const Tensor& tensor : from) names(tensor.name);
    out.source_parts.resize(from.size());
    for (std::uint32_t t = 0; t < out.draft.tensors.size(); ++t) {
        const Tensor& target = out.draft.tensors[t];
        const std::uint32_t s = names.find(target.name).value();
        Part part = own_part(target);
        for (int k = 0; k < part.shape.size(); ++k) part.shape[k] = std::min(part.shape[k], from[s].shape[k]);
        out.source_tensors.push_back({target.name, from[s].dtype, part.shape});
        out.target_tensors.push_back({target.name, target.dtype, part.shape});
        out.source_parts[s].push_back({part, t});
        out.target_parts.push_back({{part, t}});
    }
}

/// Tensors of different dialects are joined part by part.
void join_by_parts(const Source& source, Conversion& out) {
    NameNumbers names;
    for (std::size_t t = 0; t < out.draft.tensors.size(); ++t) {
        const Tensor& target = out.draft.tensors[t];
        out.target_parts.emplace_back();
        for (Part& part : parts_of(out.expressed.reading, target, out.expressed.reading.meanings[t])) {
            const auto alias = out.expressed.aliases.find(part.name);
            const std::uint32_t number = names(alias == out.expressed.aliases.end() ? part.name : alias->second);
            if (number == out.target_tensors.size())
                out.target_tensors.push_back({part.name, target.dtype, part.shape});
            out.target_parts.back().push_back({std::move(part), number});
        }
    }
    out.source_tensors = out.target_tensors;
    const std::vector<Tensor>& from = source.checkpoint.catalogue.tensors;
    for (std::size_t s = 0; s < from.size(); ++s) {
        out.source_parts.emplace_back();
        for (Part& part : parts_of(source.reading, from[s], source.reading.meanings[s])) {
            const auto number = names.find(part.name);
            if (!number) continue;
            out.source_tensors[*number] = {part.name, from[s].dtype, part.shape};
            out.source_parts.back().push_back({std::move(part), *number});
        }
    }
}

/// The pieces of stored tensors as pieces of canonical ones.
std::vector<Piece> canonical_pieces(std::span<const Tensor> tensors, std::span<const Piece> pieces,
                                    std::span<const std::vector<NumberedPart>> parts) {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        if (!parts[t].empty()) need_whole_bytes(tensors[t]);
    }
    std::vector<Piece> canonical;
    for (const Piece& piece : pieces) {
        for (const NumberedPart& part : parts[piece.tensor])
            cut_out(part.part, piece, part.number, itemsize(tensors[piece.tensor].dtype), canonical);
    }
    return canonical;
}

/// The config.json of the new checkpoint: the source's, or one made of Megatron's args; empty when neither is known.
/// DCP keeps one too, although PyTorch does not ask for it: without it nobody could tell the heads of its weights
/// apart.
std::string target_config_json(const Source& source, const Target& target, const Expressed& expressed,
                               const Config& config) {
    const std::string& own = source.checkpoint.config_json;
    if (!own.empty()) return target.dtype ? with_dtype(own, *target.dtype) : own;
    if (!expressed.reading.family || !expressed.reading.complete || source.checkpoint.format != Format::torch_dist)
        return "";
    return make_config_json(expressed, config);
}

/// Puts a small file into the draft, in place of one that would have been copied.
void put_file(Draft& draft, const std::filesystem::path& path, std::string text) {
    auto file = std::ranges::find(draft.files, path, &FileEntry::path);
    if (file == draft.files.end()) file = draft.files.insert(file, FileEntry{path, 0});
    const auto number = static_cast<std::uint32_t>(file - draft.files.begin());
    std::erase_if(draft.copies, [&](const Draft::Copy& copy) { return copy.file == number; });
    file->size = text.size();
    draft.fixed.push_back({number, 0, std::move(text)});
}

/// The tensors that the target stores: renamed, padded for another tp, or just those of the source.
Expressed target_tensors(const Source& source, const Target& target, const Dialect* dialect, const Config& config) {
    const std::vector<Tensor>& tensors = source.checkpoint.catalogue.tensors;
    if (dialect) return express(source.reading, tensors, *dialect, config, target.layout.tp);
    if (source.layout && source.layout->tp == target.layout.tp) return {.reading = source.reading, .tensors = tensors};
    return repad(source.reading, tensors, config, target.layout.tp);
}

Draft make_draft(const Source& source, const Target& target, const Dialect* dialect, const Config& config,
                 Conversion& out) {
    if (target.format == Format::torch_dist)
        out.content.args = make_args(out.expressed, target.layout, config, dialect != nullptr);
    Draft made = draft(target.format, out.content);
    if (target.format == Format::torch_dist) return made;
    std::string config_json = target_config_json(source, target, out.expressed, config);
    if (!config_json.empty()) put_file(made, "config.json", std::move(config_json));
    return made;
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

Conversion convert(Source& source, const Target& target) {
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
    out.expressed = target_tensors(source, target, dialect, config);
    set_dtype(out.expressed, target.dtype);
    out.content = {.tensors = out.expressed.tensors,
                   .pieces = assign(out.expressed, target, layers(out.expressed.reading, out.expressed.tensors)),
                   .source = &source.checkpoint,
                   .ranks = target.layout.ranks(),
                   .shard_size = target.shard_size};
    out.draft = make_draft(source, target, dialect, config, out);
    locate_all(source.checkpoint);
    dialect ? join_by_parts(source, out) : join_by_name(source, out);
    out.source_pieces = canonical_pieces(from.tensors, from.pieces, out.source_parts);
    out.target_pieces = canonical_pieces(out.draft.tensors, out.draft.pieces, out.target_parts);
    note_left_out(source, target, out);
    return out;
}

std::vector<Piece> holdings(const Reading& reading, std::span<const Tensor> tensors,
                            std::span<const std::vector<NumberedPart>> parts, const Layout& layout, Format format) {
    const std::vector<int> stages =
        layout.pp > 1 ? stages_of_layers(layout, layers(reading, tensors)) : std::vector<int>{};
    std::vector<Piece> held;
    for (std::uint32_t t = 0; t < tensors.size(); ++t) {
        if (parts[t].empty()) continue;
        for (const Shard& shard :
             shards(reading, tensors[t], reading.meanings[t], layout, stages, cutting_of(format))) {
            for (int rank : holders(layout, shard)) {
                const Piece piece{.tensor = t, .box = shard.box, .strides = row_major(sizes(shard.box)), .rank = rank};
                for (const NumberedPart& part : parts[t])
                    cut_out(part.part, piece, part.number, itemsize(tensors[t].dtype), held);
            }
        }
    }
    return held;
}

Canonical canonical(Source& source) {
    locate_all(source.checkpoint);
    Canonical out;
    NameNumbers names;
    const Catalogue& from = source.checkpoint.catalogue;
    std::vector<std::vector<NumberedPart>> parts(from.tensors.size());
    for (std::uint32_t t = 0; t < from.tensors.size(); ++t) {
        const Meaning& meaning = source.reading.meanings[t];
        for (Part& part : parts_of(source.reading, from.tensors[t], meaning)) {
            const std::uint32_t number = names(part.name);
            if (number < out.tensors.size())
                throw failure("tensor '{}': '{}' is stored twice", from.tensors[t].name, part.name);
            out.tensors.push_back({part.name, from.tensors[t].dtype, part.shape});
            out.stored_names.push_back(from.tensors[t].name);
            out.parts.push_back(part);
            out.roles.emplace_back(meaning.kind == Meaning::Kind::extra ? "extra" : meaning.role);
            parts[t].push_back({std::move(part), number});
        }
    }
    out.pieces = canonical_pieces(from.tensors, from.pieces, parts);
    return out;
}

void adopt_dims(Source& source, const Source& other) {
    // Each checkpoint was read with families of its own, so they are told apart by name.
    if (source.reading.family && other.reading.family && source.reading.family->name == other.reading.family->name)
        add_dims(source.reading, other.reading.dims);
}

std::vector<std::filesystem::path> paths(const Catalogue& catalogue) {
    std::vector<std::filesystem::path> all;
    for (const FileEntry& file : catalogue.files) all.push_back(catalogue.directory / file.path);
    return all;
}

}  // namespace tpx::formats
