// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/adapter_family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

namespace tpx {
namespace {

constexpr std::string_view weight_ending = ".weight";

/// The two axes of a weight without its indices, if it is the matrix of a linear layer.
std::optional<std::pair<Axis, Axis>> matrix_axes(const CanonicalTensor& tensor) {
    std::vector<Axis> axes;
    for (const Axis& axis : tensor.axes)
        if (!tensor.is_index(axis.front().letter)) axes.push_back(axis);
    const bool linear = axes.size() == 2 && tensor.ep == 0 && !tensor.first && !tensor.buffer;
    return linear ? std::optional{std::pair{axes[0], axes[1]}} : std::nullopt;
}

CanonicalTensor factor_tensor(const CanonicalTensor& weight, std::string_view name, std::vector<Axis> matrix, char tp) {
    CanonicalTensor made{
        .name = fmt::format("{}.{}", weight.name, name), .tp = tp, .last = weight.last, .optional = true};
    for (const Axis& axis : weight.axes)
        if (weight.is_index(axis.front().letter)) made.axes.push_back(axis);
    made.axes.insert(made.axes.end(), matrix.begin(), matrix.end());
    return made;
}

/// Adds W.a and W.b. Bridge's layers split A by columns if W is split by columns, else along the rank, and always split
/// B by rows.
void add_factors(const CanonicalTensor& weight, Family& made) {
    const auto axes = matrix_axes(weight);
    if (!axes) return;
    const auto& [out, in] = *axes;
    const Axis rank{{adapter_rank}};
    const bool by_columns = weight.tp != 0 && in.front().letter == weight.tp;
    CanonicalTensor a = factor_tensor(weight, "a", {rank, in}, by_columns ? weight.tp : adapter_rank);
    CanonicalTensor b = factor_tensor(weight, "b", {out, rank}, out.front().letter);
    made.tensors.emplace(a.name, std::move(a));
    made.tensors.emplace(b.name, std::move(b));
}

std::string with_ending(std::string_view name, std::string_view ending) {
    return fmt::format("{}{}", name.substr(0, name.size() - weight_ending.size()), ending);
}

/// "[model.]layers.{l}.x" becomes "[base_model.model.model.]layers.{l}.x", "lm_head.x" "base_model.model.lm_head.x".
std::string peft_name(std::string_view name, std::string_view ending) {
    constexpr std::string_view prefix = "base_model.model.";
    const bool bracket = name.starts_with('[');
    return with_ending(fmt::format("{}{}{}", bracket ? "[" : "", prefix, name.substr(bracket ? 1 : 0)), ending);
}

/// Bridge's name for the adapter of one part of a fused layer: adapter_q, adapter_gate.
std::string part_adapter(std::string_view part) {
    return fmt::format("adapter_{}", part.starts_with("s_") ? part.substr(2) : part);
}

class DialectMaker {
public:
    DialectMaker(const Family& made, const Dialect& base) : made_{made} {
        dialect_ = {.name = base.name, .bare = base.bare, .extra = base.extra, .roles = base.roles};
        for (const Rule& rule : base.rules)
            if (usable(rule)) base.name == "hf" ? add_peft(rule) : add_bridge(rule);
    }

    Dialect take() { return std::move(dialect_); }

private:
    bool usable(const Rule& rule) const {
        const Expression& expression = rule.expression;
        const auto padded = [](const Axis& axis) { return std::ranges::any_of(axis, &Token::padded); };
        return rule.name.text().ends_with(weight_ending) && !rule.alias() && expression.shape.empty() &&
               (expression.axes.empty() || expression.axes.size() == 2) &&
               std::ranges::none_of(expression.axes, padded) &&
               std::ranges::all_of(expression.parts,
                                   [&](const std::string& part) { return made_.tensors.contains(part + ".a"); });
    }

    void add(const std::string& name, Expression expression, const std::vector<std::string>& tags) {
        dialect_.rules.push_back({NameTemplate{name}, std::move(expression), tags});
    }

    void add_peft(const Rule& rule) {
        const std::vector<std::string>& parts = rule.expression.parts;
        if (parts.size() > 1 || !rule.expression.axes.empty()) return;
        add(peft_name(rule.name.text(), ".lora_A.weight"), {.parts = {parts[0] + ".a"}}, rule.tags);
        add(peft_name(rule.name.text(), ".lora_B.weight"), {.parts = {parts[0] + ".b"}}, rule.tags);
    }

    void add_bridge(const Rule& rule) {
        const std::vector<std::string>& parts = rule.expression.parts;
        const auto name = [&](std::string_view adapter, std::string_view side) {
            return with_ending(rule.name.text(), fmt::format(".adapter.{}{}.weight", adapter, side));
        };
        if (parts.size() == 1 && rule.expression.axes.empty()) {
            add(name("", "linear_in"), {.parts = {parts[0] + ".a"}}, rule.tags);
            add(name("", "linear_out"), {.parts = {parts[0] + ".b"}}, rule.tags);
        }
        if (parts.size() == 1) return;
        Expression in{.axes = {{{adapter_rank}}, rule.expression.axes[1]}};
        Expression out{.axes = {rule.expression.axes[0], {{adapter_rank}}}};
        for (const std::string& part : parts) {
            const std::string adapter = part_adapter(part) + ".";
            add(name(adapter, "linear_in"), {.parts = {part + ".a"}}, rule.tags);
            add(name(adapter, "linear_out"), {.parts = {part + ".b"}}, rule.tags);
            in.parts.push_back(part + ".a");
            out.parts.push_back(part + ".b");
        }
        // Read only: one adapter for all weights of the layer. They share A, so their parts of it overlap.
        add(name("", "linear_in"), std::move(in), {"shared"});
        add(name("", "linear_out"), std::move(out), {"shared"});
    }

    const Family& made_;
    Dialect dialect_;
};

Family adapter_family(const Family& base) {
    Family made{.name = base.name, .told = base.told, .detect = base.detect, .dims = base.dims};
    made.tp_divides = base.tp_divides;
    made.dims[adapter_rank]["any"] = "varies";
    for (const auto& [name, tensor] : base.tensors) add_factors(tensor, made);
    // The first dialect of each name is for the model alone; others are for the model inside another one.
    for (const char* name : {"hf", "mcore"})
        if (const Dialect* dialect = base.dialect(name)) made.dialects.push_back(DialectMaker{made, *dialect}.take());
    return made;
}

}  // namespace

bool are_adapter_tensors(std::span<const Tensor> tensors, const Config& config) {
    const auto any = [&](std::string_view word) {
        return std::ranges::any_of(tensors,
                                   [&](const Tensor& tensor) { return tensor.name.find(word) != std::string::npos; });
    };
    // For adapters of a model inside another one, adapter_families() has no names.
    if (config.contains("outer.model_type")) return false;
    if (any(".adapter.") && any(".linear_in.weight")) return true;
    return any(".lora_A.weight") && (config.contains("model_type") || config.contains("num_layers"));
}

Families adapter_families(const Families& families) {
    std::vector<FamilyHead> heads;
    std::vector<Families::Reader> readers;
    for (std::size_t number = 0; number < families.size(); ++number) {
        heads.push_back(families.head(number));
        heads.back().name_hashes = {};  // names of adapters are others
        readers.push_back([only = families.only(number)] { return adapter_family(only[0]); });
    }
    return Families{std::move(heads), std::move(readers)};
}

}  // namespace tpx
