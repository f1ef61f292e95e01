// SPDX-License-Identifier: Apache-2.0
#include "formats/adapters/adapter.hpp"

#include "formats/driver.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"
#include "lib/layout/rule_index.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;

constexpr const char* adapter_file = "adapter_model.safetensors";

/// The parts of a tensor's name in an adapter.
struct NameParts {
    enum class Part : std::uint8_t { a, b, magnitude, whole } part = Part::whole;
    std::string base;  ///< the base's tensor
    bool embedding = false;
    bool in_place = false;  ///< the weight of an adapted module itself
};

NameParts name_parts(std::string_view stored) {
    struct Sign {
        std::string_view text;
        NameParts::Part part;
        bool embedding;
    };
    constexpr std::array<Sign, 6> signs{{{".lora_A.weight", NameParts::Part::a, false},
                                         {".lora_B.weight", NameParts::Part::b, false},
                                         {".lora_embedding_A", NameParts::Part::a, true},
                                         {".lora_embedding_B", NameParts::Part::b, true},
                                         {".lora_magnitude_vector", NameParts::Part::magnitude, false},
                                         {".lora_magnitude_vector.weight", NameParts::Part::magnitude, false}}};
    constexpr std::string_view prefix = "base_model.model.";
    if (stored.starts_with(prefix)) stored.remove_prefix(prefix.size());
    for (const auto& [text, part, embedding] : signs)
        if (stored.ends_with(text))
            return {part, fmt::format("{}.weight", stored.substr(0, stored.size() - text.size())), embedding};
    std::string base{stored};
    constexpr std::string_view wrapper = ".base_layer.";
    const auto at = base.find(wrapper);
    if (at != base.npos) base.erase(at, wrapper.size() - 1);
    return {NameParts::Part::whole, base, false, at != base.npos};
}

/// Assigns the tensors of `adapter` to the tensors of the base that they change or replace.
void sort_tensors(Adapter& adapter) {
    std::map<std::string, AdaptedWeight> weights;
    const auto& tensors = adapter.checkpoint.catalogue.tensors;
    for (std::uint32_t t = 0; t < tensors.size(); ++t) {
        const NameParts name = name_parts(tensors[t].name);
        if (name.part == NameParts::Part::whole) {
            if (name.base.find("lora_") != name.base.npos || name.base.find("token_adapter") != name.base.npos)
                throw failure("tensor '{}': unknown kind of adapter tensor, which cannot be merged", tensors[t].name);
            adapter.replaced.push_back({name.base, t, name.in_place});
            continue;
        }
        AdaptedWeight& weight = weights[name.base];
        weight.name = name.base;
        weight.embedding = weight.embedding || name.embedding;
        weight.transposed = weight.transposed || name.embedding || adapter.settings.transposed;
        (name.part == NameParts::Part::a   ? weight.a
         : name.part == NameParts::Part::b ? weight.b
                                           : weight.magnitude) = t;
    }
    for (auto& [name, weight] : weights) adapter.weights.push_back(std::move(weight));
}

/// Checks the shapes of a weight's factors against each other and the settings, and sets its rank and scale.
void check_factors(const Adapter& adapter, const Tensor& a, const Tensor& b, AdaptedWeight& weight) {
    if (a.shape.size() != 2 || b.shape.size() != 2)
        throw failure("shape {} and lora_B's shape {} are not those of a linear or embedding layer", to_string(a.shape),
                      to_string(b.shape));
    if (a.shape[0] != b.shape[1])
        throw failure("has rank {}, but lora_B {} has rank {}", a.shape[0], to_string(b.shape), b.shape[1]);
    const AdapterSettings& settings = adapter.settings;
    const Index rows = a.shape[0];
    const std::vector<std::string> parameters = parameters_of(settings, weight.module());
    weight.targets_parameter = std::ranges::find(parameters, weight.name) != parameters.end();
    const std::string_view own = weight.targets_parameter ? weight.name : weight.module();
    weight.rank = settings.rank_of(own);
    weight.scale = settings.scale(own, weight.rank);
    if (weight.rank == rows) return;
    // A stack of experts, whose rank patterns match the parameter. The base decides which parameter it is.
    const auto stack = std::ranges::find_if(
        parameters, [&](const std::string& name) { return experts_in(rows, settings.rank_of(name)) > 1; });
    if (stack == parameters.end())
        throw failure("has rank {}, but {} sets rank {}", rows, adapter_config_name, weight.rank);
    set_stack(settings, *stack, rows, weight);
}

/// Checks a weight's tensors against each other and the settings, and sets its rank and scale.
void check_weight(const Adapter& adapter, AdaptedWeight& weight) {
    for (const auto& [part, letter] : {std::pair{weight.a, 'A'}, std::pair{weight.b, 'B'}})
        if (!part) throw failure("lora_{} of '{}' is missing", letter, weight.module());
    const Tensor& a = adapter.tensor(*weight.a);
    const Tensor& b = adapter.tensor(*weight.b);
    in_context([&] { return fmt::format("tensor '{}'", a.name); }, [&] { check_factors(adapter, a, b, weight); });
    if (weight.magnitude.has_value() != adapter.settings.dora)
        throw failure("'{}' has {} lora_magnitude_vector, but {} sets use_dora={}", weight.module(),
                      weight.magnitude ? "a" : "no", adapter_config_name, adapter.settings.dora);
    if (!weight.magnitude) return;
    const Tensor& magnitude = adapter.tensor(*weight.magnitude);
    if (volume(magnitude.shape) != b.shape[0])
        throw failure("tensor '{}': has shape {}, but lora_B has {} rows", magnitude.name, to_string(magnitude.shape),
                      b.shape[0]);
}

}  // namespace

Index experts_in(Index rows, Index rank) { return rank > 0 && rows % rank == 0 ? rows / rank : 0; }

void set_stack(const AdapterSettings& settings, std::string_view parameter, Index rows, AdaptedWeight& weight) {
    weight.rank = settings.rank_of(parameter);
    weight.experts = experts_in(rows, weight.rank);
    weight.scale = settings.scale(parameter, weight.rank);
    weight.targets_parameter = true;
}

std::vector<std::string> parameters_of(const AdapterSettings& settings, std::string_view module) {
    constexpr std::string_view wrapper = ".base_layer";
    while (module.ends_with(wrapper)) module.remove_suffix(wrapper.size());
    std::vector<std::string> names;
    for (const std::string& parameter : settings.parameters) {
        const std::size_t dot = parameter.rfind('.');
        const std::string owner = dot == parameter.npos ? "" : parameter.substr(0, dot);
        if (owner.empty() || module == owner || module.ends_with("." + owner))
            names.push_back(fmt::format("{}.{}", module, parameter.substr(dot == parameter.npos ? 0 : dot + 1)));
    }
    return names;
}

Shape Adapter::shape_of(const AdaptedWeight& weight) const {
    const Index in = tensor(*weight.a).shape[1];
    const Index out = tensor(*weight.b).shape[0];
    return weight.transposed ? Shape{in, out} : Shape{out, in};
}

bool is_adapter(const Checkpoint& checkpoint) {
    const auto& files = checkpoint.catalogue.files;
    return checkpoint.format->is_hugging_face && files.size() == 1 && files[0].path == adapter_file &&
           path_is_file(checkpoint.catalogue.directory / adapter_config_name);
}

Adapter read_adapter(const fs::path& directory) {
    for (const char* name : {adapter_config_name, adapter_file})
        if (!path_is_file(directory / name))
            throw failure("{}: not a LoRA adapter saved by PEFT: {} is missing", directory.string(), name);
    Adapter adapter{.settings = read_adapter_settings(directory / adapter_config_name),
                    .checkpoint = open(directory / adapter_file)};
    return in_context([&] { return (directory / adapter_file).string(); },
                      [&] {
                          sort_tensors(adapter);
                          for (AdaptedWeight& weight : adapter.weights) check_weight(adapter, weight);
                          if (adapter.weights.empty()) throw failure("contains no lora_A and lora_B tensors");
                          return std::move(adapter);
                      });
}

std::string describe(const Adapter& adapter) {
    const AdapterSettings& settings = adapter.settings;
    const auto [least, most] = std::ranges::minmax(adapter.weights, {}, &AdaptedWeight::rank);
    const auto of = [](const AdapterSettings::Patterns& patterns) { return patterns.empty() ? "" : " and others"; };
    std::string text = fmt::format(
        "{} of {}, rank {}, alpha {}{}{}", settings.dora ? "DoRA" : "LoRA",
        settings.base.empty() ? "an unnamed base" : fmt::format("'{}'", settings.base),
        least.rank == most.rank ? std::to_string(least.rank) : fmt::format("{} to {}", least.rank, most.rank),
        settings.alpha, of(settings.alphas), settings.rank_stabilized ? ", rank-stabilized" : "");
    std::vector<std::string> targets = settings.targets;
    targets.insert(targets.end(), settings.parameters.begin(), settings.parameters.end());
    if (!targets.empty()) text += fmt::format(", of {}", fmt::join(targets, ", "));
    text += fmt::format("; {}", counted(adapter.weights.size(), "weight"));
    if (!adapter.replaced.empty())
        text += fmt::format(", {} replaced whole", counted(adapter.replaced.size(), "tensor"));
    return text;
}

std::vector<std::string> families_of(const Adapter& adapter, const Families& families) {
    std::vector<Tensor> tensors;
    for (const AdaptedWeight& weight : adapter.weights)
        if (!weight.stacked()) tensors.push_back({weight.name, DType::f32, adapter.shape_of(weight)});
    if (tensors.empty()) return {};
    const FoldedNames names{tensors};
    std::vector<std::string> found;
    for (const Family& family : families) {
        const Dialect* dialect = family.dialect("hf");
        if (dialect == nullptr) continue;
        const RuleIndex book{*dialect};
        bool all = true;
        for (std::size_t t = 0; t < tensors.size() && all; ++t)
            all = book.meaning_of(tensors[t].name, names.distinct[names.of[t]]).kind == Meaning::Kind::parameter;
        if (all) found.push_back(family.name);
    }
    return found;
}

}  // namespace tpx::formats
