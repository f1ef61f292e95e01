// SPDX-License-Identifier: Apache-2.0
#include "formats/conversion.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/shard.hpp"

#include <nlohmann/json.hpp>

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

/// Adds a config.json made of `settings`, which says what transformers must know to build the model.
void add_config_json(Draft& draft, const std::vector<ConfigSetting>& settings) {
    nlohmann::ordered_json json;
    for (const ConfigSetting& setting : settings) {
        nlohmann::ordered_json value;
        std::visit([&](const auto& v) { value = v; }, setting.value);
        json[setting.key] = setting.list ? nlohmann::ordered_json::array({value}) : value;
    }
    if (!draft.tensors.empty() && info(draft.tensors[0].dtype).torch != "")
        json["dtype"] = info(draft.tensors[0].dtype).torch;
    const std::string text = json.dump(2) + "\n";
    draft.fixed.push_back({static_cast<std::uint32_t>(draft.files.size()), 0, text});
    draft.files.push_back({"config.json", text.size()});
}

/// The source's config.json with the dtype that the weights will have.
void set_config_dtype(Draft& draft, const std::string& config_json, DType dtype) {
    const auto file = std::ranges::find(draft.files, std::filesystem::path{"config.json"}, &FileEntry::path);
    if (file == draft.files.end()) return;
    auto json = nlohmann::ordered_json::parse(config_json);
    for (const char* key : {"dtype", "torch_dtype"}) {
        if (json.contains(key)) json[key] = info(dtype).torch;
    }
    const std::string text = json.dump(2) + "\n";
    const auto number = static_cast<std::uint32_t>(file - draft.files.begin());
    std::erase_if(draft.copies, [&](const Draft::Copy& copy) { return copy.file == number; });
    draft.fixed.push_back({number, 0, text});
    file->size = text.size();
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
    out.expressed = dialect ? express(source.reading, from.tensors, *dialect, config, target.layout.tp)
                            : repad(source.reading, from.tensors, config, target.layout.tp);
    set_dtype(out.expressed, target.dtype);
    out.content = {.tensors = out.expressed.tensors,
                   .pieces = assign(out.expressed, target, layers(out.expressed.reading, out.expressed.tensors)),
                   .source = &source.checkpoint,
                   .ranks = target.layout.ranks(),
                   .shard_size = target.shard_size};
    const std::vector<ConfigSetting> settings =
        dialect ? configuration_for(out.expressed, config) : std::vector<ConfigSetting>{};
    if (target.format == Format::torch_dist) {
        out.content.args = layout_args(target.layout, out.expressed);
        for (const ConfigSetting& setting : settings) out.content.args[setting.key] = setting.value;
    }
    out.draft = draft(target.format, out.content);
    if (target.format == Format::safetensors && !settings.empty()) add_config_json(out.draft, settings);
    const bool same_format = target.format == Format::safetensors && source.checkpoint.format == Format::safetensors;
    if (same_format && target.dtype && !source.checkpoint.config_json.empty())
        set_config_dtype(out.draft, source.checkpoint.config_json, *target.dtype);
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
