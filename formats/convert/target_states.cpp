// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/target_states.hpp"

#include "formats/convert/adam_from_settings.hpp"
#include "formats/driver.hpp"
#include "formats/encodings/torch/value.hpp"
#include "formats/quantized/quantized_shapes.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/beyond_rules.hpp"
#include "lib/layout/dims.hpp"
#include "lib/layout/parts.hpp"
#include "lib/layout/states.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

namespace tpx::formats {
namespace {

/// Whether torchtitan_version is 0.3 or later, which uses other names. "0.3" may have been parsed as a number.
bool is_new_torchtitan(const Config& config) {
    const auto found = config.find("torchtitan_version");
    if (found == config.end()) return false;
    const std::string version = value_text(found->second);
    return !version.starts_with("0.0") && !version.starts_with("0.1") && !version.starts_with("0.2");
}

/// Whether there is optimizer state.
bool has_state(const Reading& reading) {
    return std::ranges::any_of(reading.meanings, [](const Meaning& meaning) { return meaning.role != Role::weight; });
}

bool is_adam_role(Role role) {
    return role == Role::step || std::ranges::find(state_roles, role) != std::end(state_roles);
}

/// Returns `of_moments`, whose keys are stored names of exp_avg, with the names of exp_avg in `expressed` as keys. If a
/// tensor contains several parameters, calls `join` with the values of the first and of each further one.
template <class T, class Join>
std::map<std::string, T, std::less<>> rename_moments(const std::map<std::string, T, std::less<>>& of_moments,
                                                     const Source& source, const ExpressedState& expressed, Join join) {
    std::map<std::string, const T*, std::less<>> of_parts;
    const auto& stored = source.checkpoint.catalogue.tensors;
    for (std::size_t t = 0; t < stored.size(); ++t) {
        const auto known = of_moments.find(stored[t].name);
        if (known == of_moments.end()) continue;
        of_parts.emplace(known->first, &known->second);
        for (const Part& part : parts_of(source.reading, stored[t], source.reading.meanings[t]))
            of_parts.emplace(part.name, &known->second);
    }
    std::map<std::string, T, std::less<>> renamed;
    for (std::size_t t = 0; t < expressed.tensors.size(); ++t) {
        const Tensor& tensor = expressed.tensors[t];
        if (expressed.reading.meanings[t].role != Role::exp_avg) continue;
        const auto copy = expressed.copies.find(tensor.name);
        std::vector<std::string> parts{copy == expressed.copies.end() ? tensor.name : copy->second};
        if (!of_parts.contains(parts[0])) {
            parts.clear();
            for (const Part& part : parts_of(expressed.reading, tensor, expressed.reading.meanings[t]))
                parts.push_back(part.name);
        }
        for (const std::string& part : parts) {
            const auto found = of_parts.find(part);
            if (found == of_parts.end()) continue;
            const auto [known, added] = renamed.emplace(tensor.name, *found->second);
            if (!added) join(tensor.name, known->second, *found->second);
        }
    }
    return renamed;
}

/// Renames the keys of adam.own and adam.groups to the names of exp_avg in `expressed`. Fused parameters must have the
/// same settings.
void rename_settings(const Source& source, const ExpressedState& expressed, const Target& target, Adam& adam) {
    if (target.format->has_args) return;
    const auto check_equal = [](const std::string& name, const AdamSettings& first, const AdamSettings& other) {
        if (first == other) return;
        throw Error{Exit::usage,
                    "tensor '{}': its parameters are in groups with different settings (lr {} and {}, "
                    "weight_decay {} and {}); pass --drop optimizer to omit optimizer state",
                    name,
                    first.lr,
                    other.lr,
                    first.weight_decay,
                    other.weight_decay};
    };
    if (!adam.own.empty()) adam.own = rename_moments(adam.own, source, expressed, check_equal);
    const auto keep_first = [](const std::string&, int, int) {};
    if (!adam.groups.empty()) adam.groups = rename_moments(adam.groups, source, expressed, keep_first);
}

/// Throws Error if Megatron's groups, one of matrices and one of vectors without weight decay, cannot have these
/// settings.
void check_groups(const Adam& adam, std::vector<std::string>& notes) {
    if (!adam.own.empty())
        throw Error{
            Exit::usage,
            "parameters of one kind are in groups with different settings (the first: lr {}, weight_decay {}), but "
            "Megatron has one group of matrices and one of vectors; pass --drop optimizer to omit optimizer state",
            adam.own.begin()->second.lr, adam.own.begin()->second.weight_decay};
    if (adam.vectors.weight_decay != 0)
        notes.push_back(
            fmt::format("norms and biases have weight decay in the source (weight_decay {}), but not in Megatron",
                        adam.vectors.weight_decay));
}

/// Whether transformers 5 or later wrote the model's config.json.
bool is_of_transformers_5(const Config& config) {
    const auto version = config.find("transformers_version");
    const auto* text = version == config.end() ? nullptr : std::get_if<std::string>(&version->second);
    int major = 0;
    return text != nullptr && std::from_chars(text->data(), text->data() + text->size(), major).ec == std::errc{} &&
           major >= 5;
}

}  // namespace

std::set<std::string> name_tags(const Source& source, const Target& target, const Config& config) {
    const char* module = holds(config, "transformer_impl=local") ? "local" : "te";
    // Without Megatron's files, its names are those of torch_dist.
    if (target.dialect == "mcore" && !target.format->has_args) {
        if (has_state(source.reading))
            throw Error{Exit::usage,
                        "--dialect mcore: optimizer state has such names only with --format torch_dist, zarr or "
                        "megatron; --drop optimizer leaves it out"};
        return {"dist", module};
    }
    if (target.format->has_module_names) {
        std::set<std::string> tags;
        if (target.format->has_param_groups) tags.insert("masters");
        if (is_new_torchtitan(config)) tags.insert("new");
        // Modules are saved with their names in memory, which differ from the names in files in transformers 5.
        if (is_of_transformers_5(config)) tags.insert("module");
        return tags;
    }
    if (target.format->is_hugging_face && is_of_transformers_5(config)) return {"transformers5"};
    if (!target.format->has_args) return {};
    std::set<std::string> tags{"dist", module};
    if (target.format->has_rank_names) tags.insert("ranks");
    if (!has_state(source.reading)) return tags;
    const bool distributed = holds(config, "use_distributed_optimizer");
    if (distributed) tags.insert("distributed");
    const auto& tensors = source.checkpoint.catalogue.tensors;
    const bool half = std::ranges::any_of(source.reading.meanings, [&](const Meaning& meaning) {
        const DType stored = tensors[static_cast<std::size_t>(&meaning - source.reading.meanings.data())].dtype;
        const DType dtype = target.dtype.value_or(stored);
        return meaning.role == Role::weight && is_half(dtype);
    });
    if (distributed || half) tags.insert("masters");
    return tags;
}

void set_dtype(ExpressedState& expressed, const Target& target) {
    if (!target.dtype) return;
    for (std::size_t t = 0; t < expressed.tensors.size(); ++t) {
        const Meaning& meaning = expressed.reading.meanings[t];
        const bool weight = meaning.role == Role::weight && meaning.kind != Meaning::Kind::extra;
        DType& dtype = expressed.tensors[t].dtype;
        if (weight && (is_real(dtype) || (target.unscaled && is_fp8(dtype)))) dtype = *target.dtype;
    }
}

void check_dtype(const Source& source, const Target& target) {
    const auto quantized = [](const auto& entry) { return entry.first.starts_with("quantization_config."); };
    if (!target.dtype) return;
    const auto& tensors = source.checkpoint.catalogue.tensors;
    const auto found =
        std::ranges::find_if(tensors, [](const Tensor& tensor) { return is_quantized_weight_part(tensor.name); });
    if (std::ranges::none_of(source.checkpoint.config, quantized) && found == tensors.end()) return;
    throw Error{
        Exit::usage,
        "--dtype: {}; rounding the scales of quantized weights to {} would change the model; dequantize it first",
        found == tensors.end() ? "config.json has a quantization_config"
                               : fmt::format("tensor '{}' belongs to quantized weights", found->name),
        name(*target.dtype)};
}

void set_dtypes(ExpressedState& expressed, const std::map<std::string, DType>& made) {
    for (Tensor& tensor : expressed.tensors)
        if (const auto found = made.find(tensor.name); found != made.end()) tensor.dtype = found->second;
}

void keep_names(const Target& target, ExpressedState& expressed) {
    if (!target.format->has_param_groups) return;
    if (target.dtype) throw Error{Exit::usage, "--dtype: {} keeps the types of its source", name(target.format)};
    expressed.reading.unknown.clear();
}

std::vector<TensorView> take_views(const Source& source, const Target& target, const Dialect* dialect,
                                   ExpressedState& expressed) {
    const auto find_views = source.checkpoint.format->find_views;
    if (find_views == nullptr || !target.format->is_one_file || dialect || target.dtype) return {};
    const std::map<std::uint32_t, TensorView> found = find_views(source.checkpoint);
    std::vector<std::uint32_t> numbers(expressed.tensors.size());  // new numbers of the tensors that stay
    std::uint32_t kept = 0;
    for (std::uint32_t t = 0; t < expressed.tensors.size(); ++t) {
        if (found.contains(t)) continue;
        numbers[t] = kept;
        expressed.tensors[kept] = expressed.tensors[t];
        expressed.reading.meanings[kept++] = expressed.reading.meanings[t];
    }
    expressed.tensors.resize(kept);
    expressed.reading.meanings.resize(kept);
    std::vector<TensorView> views;
    for (const auto& [t, view] : found) {
        views.push_back(view);
        views.back().tensor = numbers[view.tensor];
    }
    return views;
}

void drop_unsupported(const Source& source, const Target& target, ExpressedState& expressed) {
    const Format from = source.checkpoint.format;
    const auto lacks = target.format->cannot_store;
    if (lacks == nullptr || from == target.format || from->framework != target.format->framework) return;
    std::uint32_t kept = 0;
    for (std::uint32_t t = 0; t < expressed.tensors.size(); ++t) {
        const std::string& name = expressed.tensors[t].name;
        if (lacks(name)) {
            expressed.dropped_names.push_back(name);
            continue;
        }
        if (kept != t) {
            expressed.tensors[kept] = std::move(expressed.tensors[t]);
            expressed.reading.meanings[kept] = std::move(expressed.reading.meanings[t]);
        }
        ++kept;
    }
    expressed.tensors.resize(kept);
    expressed.reading.meanings.resize(kept);
    expressed.reading.unknown.clear();
}

void check_states(const Source& source, const Target& target, const Dialect* dialect) {
    const bool has_roles = !source.checkpoint.roles.empty();
    const bool any_fits = dialect ? !dialect->roles.empty() : !has_roles || !target.format->weights_only;
    std::vector<std::string_view> states;
    const auto& tensors = source.checkpoint.catalogue.tensors;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        const Meaning& meaning = source.reading.meanings[t];
        if (meaning.kind == Meaning::Kind::extra || meaning.role == Role::weight) continue;
        // Dialects have no names for state of unknown parameters or for kinds of state that Adam does not have.
        const bool named = meaning.kind == Meaning::Kind::parameter && is_adam_role(meaning.role);
        const bool fits = any_fits && (!dialect || named);
        if (!fits) states.push_back(tensors[t].name);
    }
    if (states.empty()) return;
    constexpr std::size_t shown = 3;
    const std::size_t count = states.size();
    states.resize(std::min(count, shown));
    const std::string place =
        dialect ? fmt::format("{} names", dialect->name) : "safetensors, which contains weights only";
    const auto open = [](Role role) { return role == Role::state; };
    const bool unclear = dialect && has_roles && std::ranges::any_of(source.checkpoint.roles, open);
    throw Error{Exit::usage,
                "{} tensors of optimizer state cannot be stored in {} ('{}'{}){}; pass --drop optimizer to omit them",
                count,
                place,
                fmt::join(states, "', '"),
                count > shown ? ", ..." : "",
                unclear ? ": their parameters are unknown" : ""};
}

void carry_adam(Source& source, const Target& target, Conversion& out) {
    const bool moments = std::ranges::any_of(out.expressed.reading.meanings,
                                             [](const Meaning& meaning) { return meaning.role == Role::exp_avg; });
    if (!moments) return;
    out.content.adam = adam_of(source);
    if (out.content.adam) rename_settings(source, out.expressed, target, *out.content.adam);
    if (!out.content.adam) out.content.adam = adam_from_settings(source, target.config, out.notes);
    if (!out.content.adam)
        throw Error{
            Exit::usage,
            "the optimizer's param_groups (lr, betas, ...) are unknown; pass --set lr=X --set weight_decay=X (and "
            "adam_beta1, adam_beta2, adam_eps), or --drop optimizer to omit its state"};
    if (const auto other = out.content.adam->other_step)
        throw Error{Exit::usage,
                    "parameters are at different optimizer steps ({} and {}), but the target has one step for all; "
                    "pass --drop optimizer to write only the weights",
                    out.content.adam->step, *other};
    if (target.format->has_args) {
        check_groups(*out.content.adam, out.notes);
        const auto& common = source.checkpoint.common;
        const auto schedule = common ? common->find("opt_param_scheduler") : std::nullopt;
        const bool has_schedule = schedule && schedule->is(torch::Kind::dict);
        if (!has_schedule)
            out.notes.push_back("the learning-rate schedule restarts (Megatron: --override-opt-param-scheduler)");
        return;
    }
    if (out.expressed.copies.empty() || target.format->has_param_groups) return;
    if (target.dtype && *target.dtype != DType::f32)
        throw Error{Exit::usage, "--dtype {} would round the master weights, the only weights that {} store",
                    name(*target.dtype), out.dialect ? out.dialect->name + " names" : "a DCP checkpoint"};
    out.notes.push_back("weights are the master weights, in fp32");
}

}  // namespace tpx::formats
