// SPDX-License-Identifier: Apache-2.0
#include "cmd/profile/named_model.hpp"

#include "cmd/output/output.hpp"
#include "formats/files/model_file.hpp"
#include "formats/files/profile/run_cells.hpp"
#include "formats/rules/rules.hpp"
#include "formats/settings/config_file.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"
#include "lib/layout/dims.hpp"

#include <algorithm>
#include <filesystem>

namespace tpx::cli {
namespace {

/// True for the name of a built-in model, a folder, a .json file, TOML with settings outside of tables, and what does
/// not exist.
bool is_description(const std::string& name) {
    const std::filesystem::path path = name;
    const auto names = formats::builtin_model_names();
    if (std::ranges::count(names, name) > 0 || !path_exists(path)) return true;
    if (path_is_directory(path) || path.extension() == ".json") return true;
    try {
        const Config config = formats::read_config_file(path);
        return std::ranges::any_of(config,
                                   [](const auto& setting) { return setting.first.find('.') == std::string::npos; });
    } catch (const Error&) {
        return false;  // read_throughput_model() says what is wrong
    }
}

std::optional<double> setting(const Config& config, const char* key) {
    const auto found = config.find(key);
    const auto* number = found == config.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
    return number && *number > 0 ? std::optional{static_cast<double>(*number)} : std::nullopt;
}

/// Tokens per sample if nothing defines them: 4096, or fewer if the model takes fewer.
double assumed_sequence(const Config& config) {
    double tokens = setting(config, "seq_length").value_or(4096);
    for (const char* key : {"max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length"})
        tokens = std::min(tokens, setting(config, key).value_or(tokens));
    return tokens;
}

/// The layers of the decoder of an encoder-decoder model, which ModelState::layers does not count; 0 for other models.
int decoder_layers(const Config& config) {
    const bool has_encoder = config.contains("encoder_layers") || config.contains("num_decoder_layers");
    for (const char* key : {"num_decoder_layers", "decoder_layers"})
        if (const auto layers = setting(config, key); layers && has_encoder) return static_cast<int>(*layers);
    return 0;
}

/// The sizes of the described model, which is trained with flash attention. Heads that are unknown are hidden / 128.
ModelSize size_of_description(const formats::ModelDescription& found, double sequence) {
    ModelSize size = size_of(found.model, sequence, found.model.experts_per_token);
    const Dims dims{*found.family, found.source, found.config};
    if (const auto heads = dims['n'])
        size.heads = static_cast<double>(*heads);
    else
        size.heads = setting(found.config, "num_attention_heads").value_or(size.heads);
    size.layers += decoder_layers(found.config);
    size.flash_attention = true;
    return size;
}

std::string text_of(const ModelSize& size) {
    const auto whole = [](double number) { return static_cast<std::uint64_t>(number); };
    const std::string active = size.active() < size.parameters ? fmt::format(" ({:.3g} active)", size.active()) : "";
    return fmt::format("{:.3g} parameters{}, {}, hidden size {}, {}, {} tokens per sample", size.parameters, active,
                       counted(static_cast<std::uint64_t>(size.layers), "layer"), size.hidden,
                       counted(whole(size.heads), "attention head"), size.sequence);
}

NamedModel described_model(const NamedModelOptions& options, std::optional<double> sequence, Output& out) {
    const std::vector<std::filesystem::path> rules{options.rules.begin(), options.rules.end()};
    const Families families = formats::load_families(rules);
    const auto found = formats::read_model_description(options.model, families, {}, "weights");
    NamedModel named{.is_description = true, .assumes_sequence = !sequence};
    named.model.size = size_of_description(found, sequence.value_or(assumed_sequence(found.config)));
    out.note("{}: {}{}", options.model, text_of(named.model.size), sequence ? "" : " (the default of --sequence)");
    return named;
}

NamedModel model_in_file(const NamedModelOptions& options, const SequenceOf& sequence) {
    NamedModel named{.model = formats::read_throughput_model(options.model)};
    double& own = named.model.size.sequence;
    if (own <= 1)
        own = sequence().value_or(own);
    else if (options.sequence && own != static_cast<double>(*options.sequence))
        throw Error{Exit::usage, "--sequence {} differs from sequence = {} in {}; omit --sequence", *options.sequence,
                    own, options.model};
    return named;
}

void check_gpu_memory(std::uint64_t bytes) {
    if (!formats::cells::is_gpu_memory(static_cast<double>(bytes)))
        throw Error{Exit::usage, "--gpu-memory: a GPU cannot have {} bytes; write a size with a unit, such as 80GB",
                    bytes};
}

}  // namespace

NamedModel read_named_model(const NamedModelOptions& options, const SequenceOf& of_runs, Output& out) {
    const auto sequence = [&] {
        return options.sequence ? std::optional{static_cast<double>(*options.sequence)} : of_runs();
    };
    NamedModel named =
        is_description(options.model) ? described_model(options, sequence(), out) : model_in_file(options, sequence);
    formats::ThroughputModel& model = named.model;
    if (options.gpu_memory) {
        check_gpu_memory(*options.gpu_memory);
        model.gpu_memory = static_cast<double>(*options.gpu_memory);
    }
    if (options.like.empty()) return named;
    const formats::ThroughputModel other = formats::read_throughput_model(options.like);
    if (model.parameters) throw Error{Exit::usage, "--like: {} is fitted already", options.model};
    if (!other.parameters) throw Error{Exit::usage, "--like: {} has no [parameters]; it is not fitted", options.like};
    if ((other.size.sequence > 1) != (model.size.sequence > 1))
        throw Error{Exit::usage, "--like: sequence (tokens per sample) is known of {}, but not of {}",
                    other.size.sequence > 1 ? options.like : options.model,
                    other.size.sequence > 1 ? options.model : options.like};
    model = formats::like(std::move(model), other);
    return named;
}

}  // namespace tpx::cli
