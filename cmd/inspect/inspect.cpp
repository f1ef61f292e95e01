// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspect.hpp"

#include "cmd/inspect/adapter_text.hpp"
#include "cmd/inspect/inspect_html.hpp"
#include "cmd/inspect/inspect_virtual_nodes.hpp"
#include "cmd/inspect/inspect_where.hpp"
#include "cmd/inspect/state.hpp"
#include "cmd/inspect/unfinished_output.hpp"
#include "cmd/jobs/keeper_client.hpp"
#include "cmd/jobs/ranks.hpp"
#include "cmd/jobs/reading.hpp"
#include "cmd/output/output.hpp"
#include "cmd/output/output_file.hpp"
#include "formats/convert/holding.hpp"
#include "formats/quantized/activation_scales.hpp"
#include "formats/quantized/quantized.hpp"
#include "formats/quantized/quantized_parts.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"
#include "lib/core/read_record.hpp"
#include "lib/core/units.hpp"
#include "lib/core/write_file.hpp"
#include "lib/layout/adapter_family.hpp"
#include "lib/layout/beyond_rules.hpp"
#include "lib/layout/nearest_family.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Total {
    std::uint64_t tensors = 0;
    std::uint64_t elements = 0;
    std::uint64_t bytes = 0;
};

std::string role_of(const formats::Source& source, std::size_t tensor) {
    const Meaning& meaning = source.reading.meanings[tensor];
    if (meaning.virtual_node >= 0) return std::string{name(Role::virtual_node)};
    if (!source.checkpoint.roles.empty()) return std::string{name(source.checkpoint.roles[tensor])};
    if (meaning.kind == Meaning::Kind::parameter) return std::string{name(meaning.role)};
    return meaning.kind == Meaning::Kind::extra ? "extra" : "unknown";
}

std::uint64_t bytes_of(const Tensor& tensor) {
    return static_cast<std::uint64_t>(volume(tensor.shape)) * info(tensor.dtype).bits / 8;
}

/// Totals by role and dtype.
std::map<std::pair<std::string, std::string>, Total> totals(const formats::Source& source) {
    std::map<std::pair<std::string, std::string>, Total> all;
    const auto& tensors = source.checkpoint.catalogue.tensors;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        Total& total = all[{role_of(source, t), std::string{name(tensors[t].dtype)}}];
        ++total.tensors;
        total.elements += static_cast<std::uint64_t>(volume(tensors[t].shape));
        total.bytes += bytes_of(tensors[t]);
    }
    return all;
}

/// The files, each once: a catalogue has one for each dataset of an HDF5 file that is decoded.
std::vector<const FileEntry*> files_of(const Catalogue& catalogue) {
    std::vector<const FileEntry*> files;
    for (const FileEntry& file : catalogue.files) {
        if (!file.coding || files.empty() || files.back()->path != file.path) files.push_back(&file);
    }
    return files;
}

/// How many pieces hold what an earlier piece of the same tensor holds too.
std::uint64_t count_replicas(const Catalogue& catalogue) {
    std::uint64_t replicas = 0;
    for (std::size_t p = 1; p < catalogue.pieces.size(); ++p)
        replicas += catalogue.pieces[p].tensor == catalogue.pieces[p - 1].tensor &&
                    catalogue.pieces[p].box == catalogue.pieces[p - 1].box;
    return replicas;
}

/// How many tensors have each quantization scheme.
using Schemes = std::map<std::string, std::size_t>;

/// Gives codes and scales the role "quantized". Notes what is wrong with the scales, which matters only to those who
/// need the values.
Schemes read_quantization(formats::Source& source) {
    formats::Checkpoint& checkpoint = source.checkpoint;
    const bool has_parts = std::ranges::any_of(source.reading.meanings,
                                               [](const Meaning& meaning) { return meaning.weight_part != nullptr; });
    if (!has_parts && !formats::is_quantized(checkpoint)) return {};
    try {
        Schemes schemes = formats::quantization_schemes(checkpoint);
        if (!checkpoint.quantised.empty()) return schemes;
        const std::vector<std::uint32_t> of_activations = formats::activation_scales(checkpoint);
        for (std::uint32_t t = 0; t < source.reading.meanings.size(); ++t) {
            Meaning& meaning = source.reading.meanings[t];
            if (meaning.kind == Meaning::Kind::unknown &&
                (meaning.weight_part || is_of_quantized_weights(checkpoint.catalogue.tensors[t].name) ||
                 std::ranges::count(of_activations, t) > 0))
                meaning = {.kind = Meaning::Kind::parameter, .role = Role::quantized};
        }
        return schemes;
    } catch (const Error& error) {
        checkpoint.notes.push_back(fmt::format("quantized weights cannot be dequantized: {}", error.what()));
        return {};
    }
}

Json tensor_json(const formats::Source& source, std::size_t t, std::uint64_t pieces) {
    const Tensor& tensor = source.checkpoint.catalogue.tensors[t];
    return {{"name", tensor.name},
            {"dtype", name(tensor.dtype)},
            {"shape", to_json(tensor.shape)},
            {"role", role_of(source, t)},
            {"pieces", pieces}};
}

std::vector<std::uint64_t> pieces_per_tensor(const Catalogue& catalogue) {
    std::vector<std::uint64_t> counts(catalogue.tensors.size(), 0);
    for (const Piece& piece : catalogue.pieces) ++counts[piece.tensor];
    return counts;
}

/// What tpx inspect reports about a checkpoint in addition to its source.
struct Details {
    Schemes schemes;
    std::vector<Hole> holes;
    std::optional<AdapterText> adapter;
    std::optional<FamilyFit> nearest;  ///< where no family explains the tensors
};

/// The names of an adapter of Megatron Bridge are those of several families, among which the configuration chooses.
bool is_family_known(const Reading& reading) {
    return reading.family != nullptr && (!is_of_adapters(*reading.family) || reading.config.contains("model_type") ||
                                         reading.config.contains("num_layers"));
}

/// The settings of an adapter that PEFT saved; the type of other adapters; null for other checkpoints.
Json adapter_json(const Reading& reading, const Details& findings) {
    Json json = findings.adapter ? findings.adapter->json : Json{};
    if (!findings.adapter && reading.family != nullptr && is_of_adapters(*reading.family)) json["type"] = "lora";
    if (!json.is_null()) json["library"] = findings.adapter || reading.dialect->name == "hf" ? "peft" : "bridge";
    return json;
}

/// The document that --json prints, with a list of all tensors if `tensors`.
Json document(const formats::Source& source, const Details& findings, bool tensors) {
    const formats::Checkpoint& checkpoint = source.checkpoint;
    const Catalogue& catalogue = checkpoint.catalogue;
    Json json{{"checkpoint", with_held_names(catalogue.directory.string())},
              {"format", formats::name(checkpoint.format)},
              {"family", is_family_known(source.reading) ? Json(source.reading.family->name) : nullptr},
              {"dialect", source.reading.dialect ? Json(source.reading.dialect->name) : nullptr},
              {"layout", source.layout ? to_json(*source.layout) : Json(nullptr)},
              {"iteration", checkpoint.iteration ? Json(*checkpoint.iteration) : nullptr},
              {"tensors", catalogue.tensors.size()},
              {"pieces", catalogue.pieces.size()},
              {"replicas", count_replicas(catalogue)},
              {"objects", catalogue.objects.size()}};
    if (!checkpoint.variant.empty()) json["variant"] = checkpoint.variant;
    json["totals"] = Json::array();
    for (const auto& [key, total] : totals(source))
        json["totals"].push_back({{"role", key.first},
                                  {"dtype", key.second},
                                  {"tensors", total.tensors},
                                  {"elements", total.elements},
                                  {"bytes", total.bytes}});
    if (findings.nearest)
        json["nearest"] = {{"family", findings.nearest->family->name},
                           {"dialect", findings.nearest->dialect->name},
                           {"known", findings.nearest->known},
                           {"unknown", findings.nearest->unknown},
                           {"missing", findings.nearest->missing}};
    if (Json adapter = adapter_json(source.reading, findings); !adapter.is_null()) json["adapter"] = std::move(adapter);
    for (const auto& [scheme, count] : findings.schemes)
        json["quantized"].push_back({{"scheme", scheme}, {"tensors", count}});
    json["dims"] = Json::object();
    for (const auto& [letter, size] : source.reading.dims.known())
        if (std::isalpha(static_cast<unsigned char>(letter)) != 0) json["dims"][std::string{letter}] = size;
    json["holes"] = Json::array();
    for (const Hole& hole : findings.holes)
        json["holes"].push_back({{"tensor", catalogue.tensors[hole.tensor].name}, {"box", to_json(hole.box)}});
    json["files"] = Json::array();
    for (const FileEntry* file : files_of(catalogue))
        json["files"].push_back({{"path", file->path.string()}, {"bytes", file->size}});
    json["notes"] = checkpoint.notes;
    if (!checkpoint.quantised.empty()) json["quantised"] = Json::array();
    for (const formats::Quantised& tensor : checkpoint.quantised)
        json["quantised"].push_back({{"name", tensor.name}, {"type", tensor.type}, {"shape", to_json(tensor.shape)}});
    if (tensors) {
        const auto counts = pieces_per_tensor(catalogue);
        json["tensor_list"] = Json::array();
        for (std::size_t t = 0; t < catalogue.tensors.size(); ++t)
            json["tensor_list"].push_back(tensor_json(source, t, counts[t]));
    }
    return json;
}

void print_tensors(const formats::Source& source, Output& out) {
    const Catalogue& catalogue = source.checkpoint.catalogue;
    const auto counts = pieces_per_tensor(catalogue);
    std::size_t width = 0;
    for (const Tensor& tensor : catalogue.tensors) width = std::max(width, printable(tensor.name).size());
    out.result("\n");
    for (const formats::Quantised& tensor : source.checkpoint.quantised)
        out.result("{:<{}}  {:<5} {:<18} quantised\n", printable(tensor.name), width, tensor.type,
                   to_string(tensor.shape));
    for (std::size_t t = 0; t < catalogue.tensors.size(); ++t) {
        const Tensor& tensor = catalogue.tensors[t];
        out.result("{:<{}}  {:<5} {:<18} {:<10} {} {}\n", printable(tensor.name), width, name(tensor.dtype),
                   to_string(tensor.shape), role_of(source, t), counts[t], counts[t] == 1 ? "piece" : "pieces");
    }
}

std::string spoken_dialect(const Reading& reading) {
    if (!reading.dialect) return fmt::format("unknown ({})", printable(reading.why_not));
    if (!is_family_known(reading)) return "LoRA adapter of an unknown base; pass --config config.json";
    if (is_of_adapters(*reading.family))
        return fmt::format("LoRA adapter of {}, {} names", reading.family->name, reading.dialect->name);
    return fmt::format("{}, {} names", reading.family->name, reading.dialect->name);
}

void print_text(const formats::Source& source, const Details& findings, bool tensors, Output& out) {
    const formats::Checkpoint& checkpoint = source.checkpoint;
    const Catalogue& catalogue = checkpoint.catalogue;
    out.result("format     {}{}\n", formats::name(checkpoint.format),
               checkpoint.variant.empty() ? "" : fmt::format(" ({})", checkpoint.variant));
    out.result("family     {}\n", findings.adapter ? findings.adapter->family : spoken_dialect(source.reading));
    if (findings.nearest) out.result("nearest    {}\n", printable(findings.nearest->describe()));
    if (findings.adapter) out.result("adapter    {}\n", printable(findings.adapter->summary));
    if (source.layout)
        out.result("layout     {} ({})\n", to_string(*source.layout), counted(source.layout->ranks(), "rank"));
    else
        out.result("layout     unknown: no layout matches every box\n");
    if (checkpoint.iteration) out.result("iteration  {}\n", *checkpoint.iteration);
    for (const auto& [key, total] : totals(source))
        out.result("{:<10} {} of {}, {}, {}\n", key.first, counted(total.tensors, "tensor"), key.second,
                   counted(total.elements, "element"), format_bytes(static_cast<double>(total.bytes)));
    for (const auto& [scheme, count] : findings.schemes)
        out.result("quantized  {}: {}\n", counted(count, "tensor"), scheme);
    out.result("pieces     {} in {}, {}\n", catalogue.pieces.size(), counted(files_of(catalogue).size(), "file"),
               counted(count_replicas(catalogue), "replica"));
    if (!catalogue.objects.empty()) out.result("objects    {}\n", catalogue.objects.size());
    if (findings.holes.empty()) out.result("holes      none\n");
    for (const Hole& hole : findings.holes)
        out.result("hole       {} {}\n", printable(catalogue.tensors[hole.tensor].name), to_string(hole.box));
    if (tensors) print_tensors(source, out);
}

}  // namespace

void run_inspect(const InspectOptions& options, Output& out) {
    if (!is_first_rank()) return;
    if (print_unfinished(options.checkpoint, out)) {
        if (!options.html.empty()) out.note("--html {}: not written, because the output is unfinished", options.html);
        out.finish();
        throw Finished{Exit::no};
    }
    const ReadRecord record;
    Opened opened = open_checkpoint(options.checkpoint, options);
    if (!options.where.empty()) return print_where(opened.source, options.where, out);
    if (options.state) return print_state(opened.source.checkpoint, formats::read_state(opened.source.checkpoint), out);
    Details findings{.holes = find_holes(opened.source.checkpoint.catalogue), .adapter = adapter_text(opened)};
    if (!opened.source.reading.family && !findings.adapter)
        findings.nearest = nearest_family(opened.source.checkpoint.catalogue.tensors, opened.source.families);
    std::vector<std::string>& notes = opened.source.checkpoint.notes;
    if (std::string missing = formats::missing_ranks(opened.source); !missing.empty())
        notes.push_back(std::move(missing));
    add_virtual_nodes(opened.source, options.checkpoint);
    findings.schemes = read_quantization(opened.source);
    for (const std::string& note : notes) out.note("{}", note);
    if (!options.html.empty()) {
        check_outputs_apart({{"--html", options.html}}, record);
        Json page = document(opened.source, findings, true);
        page["path"] = is_held(options.checkpoint)
                           ? options.checkpoint
                           : std::filesystem::absolute(options.checkpoint).lexically_normal().string();
        write_file(options.html, inspect_html(std::move(page), opened.source.checkpoint.catalogue, findings.holes));
    }
    if (out.json())
        out.object("tpx.inspect/1", document(opened.source, findings, options.tensors));
    else
        print_text(opened.source, findings, options.tensors, out);
}

}  // namespace tpx::cli
