// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/model_choice.hpp"

#include "formats/convert/source_config.hpp"
#include "formats/driver.hpp"
#include "formats/settings/config_file.hpp"
#include "formats/settings/model_config.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/adapter_family.hpp"
#include "lib/layout/config_mismatch.hpp"

#include <fmt/ranges.h>

namespace tpx::formats {
namespace {

constexpr const char* hf_type_key = "hf_model_type";

/// One reading of the source, the config.json for it, and why that config.json does not fit.
struct Candidate {
    std::string model_type;
    Reading reading;
    std::string config_json;
    std::string why_not;
    std::vector<std::pair<std::string, std::string>> missing;  ///< settings that nothing specifies

    bool fits() const { return why_not.empty(); }
};

std::string text_of(const Config& config, std::string_view key) {
    const auto found = config.find(key);
    const auto* text = found == config.end() ? nullptr : std::get_if<std::string>(&found->second);
    return text ? *text : "";
}

Candidate try_reading(const Source& source, Reading reading, Config config) {
    Candidate candidate{
        .model_type = {}, .reading = std::move(reading), .config_json = {}, .why_not = {}, .missing = {}};
    const std::string type = text_of(config, hf_type_key);
    try {
        const Dialect dialect = names_of_transformers(candidate.reading);
        const ExpressedState expressed =
            express(candidate.reading, source.checkpoint.catalogue.tensors, dialect, config, 1, {});
        candidate.config_json = make_config_json(expressed, config);
        if (candidate.config_json.empty()) throw failure("its rules have no [config.hf]");
        const Config written = parse_config_json(candidate.config_json);
        candidate.model_type = text_of(written, "model_type");
        candidate.missing = missing_settings(expressed, written);
        candidate.why_not = config_mismatch(expressed, config, written);
        if (!type.empty() && type != candidate.model_type)
            candidate.why_not = fmt::format("tpx writes such models as '{}'", candidate.model_type);
    } catch (const Error& error) {
        candidate.why_not = error.what();
    }
    if (candidate.model_type.empty()) candidate.model_type = type.empty() ? candidate.reading.family->name : type;
    return candidate;
}

/// The model_type that the source or the user specifies.
std::string named_type(const Config& config) {
    const std::string type = text_of(config, "model_type");
    return type.empty() ? text_of(config, hf_type_key) : type;
}

/// The first model_type other than `but` whose parameters are exactly the source's tensors. Models whose code is not
/// part of transformers are chosen only by name.
std::optional<Candidate> other_fitting(const Source& source, const std::string& but, const Config& config,
                                       std::string_view dialect) {
    for (std::size_t number = 0; number < source.families.size(); ++number) {
        const FamilyHead& head = source.families.head(number);
        const auto types = head.detect.find("hf");
        if (types == head.detect.end()) continue;
        const Family& family = source.families[number];
        if (!family.config.contains("hf") || family.remote_code || !family.dialect(dialect)) continue;
        for (const std::string& type : types->second) {
            if (type == but) continue;
            Config with_type = config;
            with_type.erase("model_type");
            with_type[hf_type_key] = type;
            Reading reading = read_by_roles(source.checkpoint, source.families.only(number), with_type);
            if (!reading.family || !reading.unknown.empty() || !reading.complete) continue;
            Candidate candidate = try_reading(source, std::move(reading), std::move(with_type));
            if (candidate.fits()) return candidate;
        }
    }
    return std::nullopt;
}

[[noreturn]] void refuse(const Candidate& first, const std::string& fitting, bool is_named) {
    const std::string way = !fitting.empty() ? fmt::format("--set model_type={} fits", fitting)
                            : is_named       ? "no other model_type fits"
                                             : "no model_type fits (--set model_type=TYPE selects one)";
    throw Error{Exit::usage,
                "transformers' '{}' does not match this model: {}; {}; --dialect keep leaves the names as they are",
                first.model_type, first.why_not, way};
}

/// Lists the unknown settings of the model and the options that set them.
std::string missing_text(const Candidate& candidate) {
    std::vector<std::string> assumed;
    std::vector<std::string> options;
    for (const auto& [key, value] : candidate.missing) {
        assumed.push_back(fmt::format("{} (transformers assumes {})", key, value));
        options.push_back(fmt::format("--set {}=X", key));
    }
    return fmt::format("unknown settings of the model: {}; pass {}, or --config config.json", fmt::join(assumed, ", "),
                       fmt::join(options, " "));
}

/// If `must`, requires all settings, because transformers will read config.json. Otherwise only tpx reads it; while
/// settings are unknown, config.json names no architectures, and a note reports that.
void require_settings(const Candidate& candidate, bool must, std::vector<std::string>& notes) {
    if (candidate.missing.empty()) return;
    if (must) throw Error{Exit::usage, "{}", missing_text(candidate)};
    notes.push_back(fmt::format("config.json names no architectures, so transformers does not accept it: {}",
                                missing_text(candidate)));
}

}  // namespace

std::string source_config_json(const Source& source, const Target& target) {
    const std::string& own = source.checkpoint.config_json;
    return own.empty() ? own : with_settings(own, target.config);
}

ModelChoice choose_model(Source& source, const Target& target, const Dialect* dialect, const Config& config,
                         std::vector<std::string>& notes) {
    using File = ModelChoice::File;
    const std::string own = source_config_json(source, target);
    const bool known = source.reading.family && source.reading.complete;
    const bool strict = dialect && dialect->name == "hf";
    // A config.json that tpx wrote without knowing all settings names no architectures.
    const Config written = own.empty() ? Config{} : parse_config_json(own);
    const bool whole = names_model(written);
    // A model that gets other names must match its config.json, which is copied.
    const bool renamed = dialect && dialect->name != source.reading.dialect->name && source.reading.source() == "hf";
    const bool adapter = source.reading.family && is_adapter_family(*source.reading.family);
    if (whole && known && !adapter && (strict || renamed))
        check_source_config(source, own, config, notes);
    else if (whole && known && source.reading.family->config.contains("hf"))
        check_layer_count(source, written);
    // An adapter has no config.json; any known one is the base model's.
    if (adapter && target.format->is_hugging_face) return {dialect, File::none};
    if (whole || (!own.empty() && !strict)) return {dialect, File::own};
    // If names stay those of transformers, a model specified by --config or --set also gets a config.json.
    const bool named_by_user = known && !dialect && target.format->is_hugging_face &&
                               source.reading.dialect->name == "hf" && !named_type(target.config).empty();
    const bool wanted = known && (dialect || named_by_user || source.checkpoint.format->has_args);
    if (!wanted || target.format->is_one_file || target.format->has_args) return {dialect, File::none};
    if (adapter) return {dialect, File::none};
    // Rules describe the language model only, so tpx cannot create a config.json for a model with other parts.
    if (source.reading.family->is_outer) {
        if (strict && target.format->is_hugging_face)
            throw Error{Exit::usage,
                        "the model has parts outside its language model, whose settings are unknown; pass --config "
                        "config.json"};
        return {dialect, File::none};
    }
    Config settings = config;
    const std::string type = named_type(config);
    if (!type.empty()) settings[hf_type_key] = type;
    Candidate chosen = try_reading(source, source.reading, settings);
    if (!chosen.fits()) {
        const Dialect* names = dialect ? dialect : source.reading.dialect;
        auto other = other_fitting(source, chosen.model_type, config, names->name);
        if (strict && (!other || !type.empty())) refuse(chosen, other ? other->model_type : "", !type.empty());
        if (!other && named_by_user)
            notes.push_back(fmt::format("no config.json is written: transformers' '{}' does not match this model: {}",
                                        chosen.model_type, chosen.why_not));
        if (!other) return {dialect, File::none};
        chosen = *std::move(other);
    }
    // The loaders of other formats never read config.json.
    if (strict || named_by_user) require_settings(chosen, strict && target.format->is_hugging_face, notes);
    source.reading = std::move(chosen.reading);
    source.reading.config[hf_type_key] = chosen.model_type;
    return {dialect ? source.reading.family->dialect(dialect->name) : nullptr, File::made};
}

}  // namespace tpx::formats
