// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/model_state.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/condition.hpp"
#include "lib/layout/dims.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <numeric>
#include <set>

namespace tpx {
namespace {

constexpr Index most_layers = 100'000;
constexpr std::array given_roles{Role::weight, Role::master, Role::exp_avg, Role::exp_avg_sq};

StateRole parse_role(std::string_view text, DType weights) {
    const std::size_t colon = std::min(text.find(':'), text.size());
    const auto given = role_by_name(text.substr(0, colon));
    if (!given || std::ranges::find(given_roles, *given) == given_roles.end())
        throw usage_error(
            "roles: '{}' is not a role; use train, weights, or a list of {}, as in weight:bf16,exp_avg:f32",
            text.substr(0, colon), fmt::join(given_roles, ", "));
    StateRole role{*given, *given == Role::weight ? weights : DType::f32};
    if (colon == text.size()) return role;
    const auto dtype = dtype_by_name(text.substr(colon + 1));
    if (!dtype || itemsize(*dtype) == 0)
        throw usage_error("roles: '{}': '{}' is not a dtype; use, for example, bf16 or f32", text,
                          text.substr(colon + 1));
    role.dtype = *dtype;
    return role;
}

class ModelMaker {
public:
    ModelMaker(const Family& family, std::string_view source, const Config& config)
        : family_{family}, source_{source}, config_{config}, lists_{config}, dims_{family, source, config} {}

    ModelState make(std::vector<StateRole> roles);

private:
    const std::string* formula(const std::map<std::string, std::string>& by_source) const;
    std::string unknown(char letter, std::set<char>& asked) const;
    Index size(char letter) const { return size(letter, dims_); }
    Index size(char letter, const Dims& sizes) const;
    int layer_count(char letter) const;
    bool tied() const;
    bool is_present(const CanonicalTensor& tensor, std::optional<int> layer, int depth = 0) const;
    bool by_condition(const CanonicalTensor& tensor, std::optional<int> layer, int depth) const;
    std::optional<std::vector<int>> layers_with(const CanonicalTensor& tensor) const;
    std::vector<std::vector<int>> alike(const CanonicalTensor& tensor, const std::vector<int>& layers) const;
    TensorClass make_class(const CanonicalTensor& tensor, std::vector<int> layers) const;
    void cut(TensorClass& kind, const CanonicalTensor& tensor) const;

    const Family& family_;
    std::string source_;
    const Config& config_;
    ListItems lists_;
    Dims dims_;
    int layers_ = 0;       // including those of MTP
    int main_layers_ = 0;  // without
};

/// The entry for this source of configuration; null if there is none.
const std::string* ModelMaker::formula(const std::map<std::string, std::string>& by_source) const {
    return formula_for(by_source, source_);
}

/// Why the size of a factor is unknown: the formula of the innermost unknown factor that it depends on.
std::string ModelMaker::unknown(char letter, std::set<char>& asked) const {
    const auto found = family_.dims.find(letter);
    const std::string* text = found == family_.dims.end() ? nullptr : formula(found->second);
    asked.insert(letter);
    if (!text) return fmt::format("'{}' is not declared for '{}'", letter, source_);
    const auto in_word = [&](std::size_t i) {
        return i < text->size() && (std::isalnum(static_cast<unsigned char>((*text)[i])) || (*text)[i] == '_');
    };
    for (std::size_t i = 0; i < text->size(); ++i) {
        const char inner = (*text)[i];
        const bool alone =
            std::isalpha(static_cast<unsigned char>(inner)) && !in_word(i + 1) && (i == 0 || !in_word(i - 1));
        if (alone && !dims_[inner] && !asked.contains(inner)) return unknown(inner, asked);
    }
    return fmt::format("{} = {}", letter, *text);
}

Index ModelMaker::size(char letter, const Dims& sizes) const {
    const auto known = sizes[letter];
    if (!known && family_.varies(letter) && !layer_formula(family_, letter, source_))
        throw usage_error("only the tensors of a checkpoint give size '{}' of family '{}'; plan from a checkpoint",
                          letter, family_.name);
    if (!known) {
        std::set<char> asked;
        throw usage_error("size '{}' is unknown; it follows from {}", letter, unknown(letter, asked));
    }
    if (*known <= 0 || *known > (Index{1} << 40))
        throw usage_error("size '{}' = {} is invalid ({})", letter, *known, *formula(family_.dims.at(letter)));
    return *known;
}

int ModelMaker::layer_count(char letter) const {
    const Index count = size(letter);
    if (count > most_layers) throw usage_error("{} layers are more than {}", count, most_layers);
    return static_cast<int>(count);
}

bool ModelMaker::tied() const {
    const std::string* condition = formula(family_.tied);
    return condition && holds(config_, *condition);
}

bool ModelMaker::is_present(const CanonicalTensor& tensor, std::optional<int> layer, int depth) const {
    if (!tensor.tie.empty() && !tensor.has('l') && tied()) return false;
    if (!family_.present.contains(tensor.name)) return !tensor.optional;
    return by_condition(tensor, layer, depth);
}

bool ModelMaker::by_condition(const CanonicalTensor& tensor, std::optional<int> layer, int depth) const {
    constexpr int deepest = 8;
    if (depth > deepest) throw failure("present: the condition of tensor '{}' leads back to it", tensor.name);
    const std::string* condition = formula(family_.present.at(tensor.name));
    if (!condition) return !tensor.optional;
    const auto lookup = [&](std::string_view word) -> std::optional<ConfigValue> {
        if (word == "l") {
            if (layer) return std::int64_t{*layer};
            return std::nullopt;
        }
        if (word.size() == 1) {  // a size or, like q, a tensor
            if (const auto known = dims_[word[0]]) return *known;
        }
        if (const auto other = family_.tensors.find(word); other != family_.tensors.end())
            return is_present(other->second, layer, depth + 1);
        const auto found = config_.find(word);
        if (found == config_.end()) return std::nullopt;
        return found->second;
    };
    return evaluate_condition(*condition, lookup, lists_).value_or(false);
}

/// The layers that have the tensor; empty if it belongs to none. Nothing if the model lacks it.
std::optional<std::vector<int>> ModelMaker::layers_with(const CanonicalTensor& tensor) const {
    std::vector<int> layers;
    if (!tensor.has('l')) return is_present(tensor, std::nullopt) ? std::optional{layers} : std::nullopt;
    for (int layer = 0; layer < layers_; ++layer) {
        if (is_present(tensor, layer)) layers.push_back(layer);
    }
    if (layers.empty()) return std::nullopt;
    return layers;
}

/// Sets the axis that tensor parallelism splits, and its padding.
void ModelMaker::cut(TensorClass& kind, const CanonicalTensor& tensor) const {
    if (tensor.tp == 0) return;
    int axis = 0;
    for (const Axis& tokens : tensor.axes) {
        if (tensor.is_index(tokens.front().letter)) continue;
        if (tokens.front().letter == tensor.tp) kind.tp_axis = axis;
        ++axis;
    }
    if (kind.tp_axis < 0)
        throw failure("factor '{}' does not lead an axis, so tensor parallelism cannot split it", tensor.tp);
    for (const auto& [dialect, formulas] : family_.pad) {
        const auto pad = formulas.find(tensor.tp);
        if (pad == formulas.end()) continue;
        kind.pad = dims_.evaluate(pad->second, config_, {{"tp", std::int64_t{1}}}).value_or(0);
    }
}

/// The layers of a tensor, in groups that have the same sizes.
std::vector<std::vector<int>> ModelMaker::alike(const CanonicalTensor& tensor, const std::vector<int>& layers) const {
    const auto varies = [&](const Axis& axis) {
        return std::ranges::any_of(axis, [&](Token token) { return family_.varies(token.letter); });
    };
    if (layers.empty() || std::ranges::none_of(tensor.axes, varies)) return {layers};
    std::map<std::map<char, Index>, std::vector<int>> groups;
    for (const int layer : layers) {
        groups[dims_.of_layer(family_, source_, config_, lists_, layer).known()].push_back(layer);
    }
    std::vector<std::vector<int>> found;
    for (auto& [sizes, group] : groups) found.push_back(std::move(group));
    return found;
}

TensorClass ModelMaker::make_class(const CanonicalTensor& tensor, std::vector<int> layers) const {
    TensorClass kind{.name = tensor.name, .layers = std::move(layers)};
    const Dims sizes = dims_.of_layer(family_, source_, config_, lists_, kind.layers.empty() ? 0 : kind.layers.front());
    for (const Axis& tokens : tensor.axes) {
        if (tokens.front().letter == 'l') continue;
        if (tensor.is_index(tokens.front().letter)) {
            kind.experts = size('e');
            continue;
        }
        Index length = 1;
        for (Token token : tokens) {
            if (__builtin_mul_overflow(length, size(token.letter, sizes), &length))
                throw usage_error("an axis has more than 2^63 elements");
        }
        kind.shape.push_back(length);
    }
    kind.first = tensor.first;
    kind.last = tensor.last || (tensor.mtp && layers_ > main_layers_);
    cut(kind, tensor);
    return kind;
}

ModelState ModelMaker::make(std::vector<StateRole> roles) {
    // A configuration without a number of layers for multi-token prediction describes a model without such layers.
    if (const auto main = dims_['L']; main && !dims_['l']) dims_.set('l', *main);
    layers_ = layer_count('l');
    main_layers_ = family_.dims.contains('L') ? layer_count('L') : layers_;
    ModelState model{.layers = main_layers_, .roles = std::move(roles)};
    std::set<std::string_view> shared;  // tensors to which the output layer is tied
    for (const auto& [name, tensor] : family_.tensors) {
        in_context([&] { return fmt::format("tensor '{}'", name); },
                   [&] {
                       if (!tensor.tie.empty() && tied() && tensor.last) shared.insert(tensor.tie);
                       if (const auto layers = layers_with(tensor))
                           for (std::vector<int>& group : alike(tensor, *layers))
                               model.classes.push_back(make_class(tensor, std::move(group)));
                   });
    }
    for (TensorClass& kind : model.classes) kind.last = kind.last || shared.contains(kind.name);
    if (const auto count = dims_.evaluate("num_experts_per_tok | moe_router_topk", config_))
        model.experts_per_token = static_cast<double>(*count);
    for (const std::string& text : family_.tp_divides) {
        for (const Index count : values_by_layer(dims_, text, family_, source_, config_, layers_))
            if (count > 0) model.tp_divides.push_back(count);
    }
    return model;
}

}  // namespace

Index parameters(const ModelState& model) {
    Index sum = 0;
    for (const TensorClass& kind : model.classes) {
        if (kind.of_virtual_nodes) continue;
        const Index layers = kind.layers.empty() ? 1 : std::ssize(kind.layers);
        sum += volume(kind.shape) * layers * std::max<Index>(kind.experts, 1);
    }
    return sum;
}

void add_virtual_nodes(ModelState& model, int count) {
    if (count == 0 || model.virtual_node_bytes == 0) return;
    TensorClass state{.name = "virtual_node_state", .shape = {count, model.virtual_node_bytes}};
    for (int layer = 0; layer < model.layers; ++layer) state.layers.push_back(layer);
    state.of_virtual_nodes = true;
    model.classes.push_back(std::move(state));
    model.roles.push_back({Role::virtual_node, DType::u8});
}

std::vector<StateRole> parse_roles(std::string_view text, DType weights) {
    if (text == "train") return parse_roles("weight:bf16,master:f32,exp_avg:f32,exp_avg_sq:f32", weights);
    if (text == "weights") return {{Role::weight, weights}};
    std::vector<StateRole> roles;
    while (true) {
        const std::size_t comma = std::min(text.find(','), text.size());
        roles.push_back(parse_role(text.substr(0, comma), weights));
        if (std::ranges::count(roles, roles.back().role, &StateRole::role) > 1)
            throw usage_error("roles: '{}' is given twice", roles.back().role);
        if (comma == text.size()) return roles;
        text.remove_prefix(comma + 1);
    }
}

ModelState model_of(const Family& family, std::string_view source, const Config& config, std::vector<StateRole> roles) {
    return ModelMaker{family, source, config}.make(std::move(roles));
}

}  // namespace tpx
