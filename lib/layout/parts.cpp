// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/parts.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/factored_axes.hpp"

#include <optional>
#include <utility>

namespace tpx {
namespace {

/// The axis and step of factor `letter` of part number `part`.
std::pair<int, Index> find_place(const std::vector<FactoredAxis>& axes, std::size_t part, char letter) {
    for (std::size_t a = 0; a < axes.size(); ++a) {
        for (const FactoredAxis::Factor& place : axes[a].places) {
            if (place.letter == letter) return {static_cast<int>(a), place.step};
        }
        if (!axes[a].has_parts) continue;
        for (const FactoredAxis::Factor& place : axes[a].part_places[part]) {
            if (place.letter == letter) return {static_cast<int>(a), place.step};
        }
    }
    throw failure("factor '{}' has no place in the stored tensor", letter);
}

Part make_part(const Reading& reading, const Dims& sizes, const Meaning& meaning, const std::vector<FactoredAxis>& axes,
               std::size_t number, NameIndices at, Index repeat) {
    const CanonicalTensor& tensor = reading.family->tensor(meaning.rule->expression.parts[number]);
    Part part{.name = part_name(meaning.role, tensor, at), .repeat = repeat};
    for (std::size_t a = 0; a < axes.size(); ++a)
        part.offset.push_back(axes[a].has_parts ? axes[a].part_begin[number] : 0);
    for (char letter : letters_of(tensor.axes)) {
        const bool in_name = tensor.is_index(letter) && !is_axis(*reading.family, meaning, letter);
        if (in_name) continue;
        const auto [axis, step] = find_place(axes, number, letter);
        if (tensor.is_index(letter)) {
            part.offset[axis] += step * (letter == 'l' ? at.layer : at.expert).value();
            continue;
        }
        part.shape.push_back(factor_size(sizes, letter));
        part.axis.push_back(axis);
        part.step.push_back(step);
    }
    if (repeat > 0) {
        const auto [axis, step] = find_place(axes, number, repeat_of(meaning.rule->expression, number));
        part.offset[axis] += step * repeat;
    }
    return part;
}

/// The layer and expert of each canonical tensor of a part: those in the stored name, or in its place all along an axis
/// of `layers` or `experts`.
std::vector<NameIndices> indices_of(const Meaning& meaning, std::optional<Index> layers, std::optional<Index> experts) {
    std::vector<NameIndices> all;
    for (int l = 0; l < layers.value_or(1); ++l) {
        for (int e = 0; e < experts.value_or(1); ++e) {
            all.push_back(meaning.indices);
            if (layers) all.back().layer = l;
            if (experts) all.back().expert = e;
        }
    }
    return all;
}

/// The parts of a stored tensor with factors of these sizes; `layers` is the size of its axis of layers, if it has one.
std::vector<Part> parts_with_sizes(const Reading& reading, const Tensor& tensor, const Meaning& meaning,
                                   const Dims& sizes, std::optional<Index> layers) {
    const Expression& expression = meaning.rule->expression;
    const auto axes = factored_axes(*reading.family, meaning, sizes, layers.value_or(0));
    check_shape(tensor, factored_shape(*reading.family, meaning, sizes, layers.value_or(0)));
    Shape view;
    if (!expression.shape.empty()) {
        for (const FactoredAxis& axis : axes) view.push_back(axis.size);
    }
    std::optional<Index> experts;
    if (is_axis(*reading.family, meaning, 'e')) experts = factor_size(reading.dims, 'e');
    const std::vector<NameIndices> indices = indices_of(meaning, layers, experts);
    std::vector<Part> parts;
    for (std::size_t number = 0; number < expression.parts.size(); ++number) {
        const char factor = repeat_of(expression, number);
        const Index repeats = factor == 0 ? 1 : factor_size(sizes, factor);
        for (const NameIndices& at : indices) {
            for (Index repeat = 0; repeat < repeats; ++repeat) {
                parts.push_back(make_part(reading, sizes, meaning, axes, number, at, repeat));
                parts.back().view = view;
            }
        }
    }
    return parts;
}

}  // namespace

std::string part_name(Role role, const CanonicalTensor& tensor, const NameIndices& at) {
    std::string name = role == Role::weight ? "" : fmt::format("{}.", role);
    if (at.layer && tensor.has('l')) name += fmt::format("layers.{}.", *at.layer);
    if (at.expert && tensor.is_index('e')) name += fmt::format("experts.{}.", *at.expert);
    return name + tensor.name;
}

Part own_part(const Tensor& tensor) {
    Part part{.name = tensor.name, .shape = tensor.shape};
    for (int k = 0; k < tensor.shape.size(); ++k) {
        part.axis.push_back(k);
        part.step.push_back(1);
        part.offset.push_back(0);
    }
    return part;
}

Tuple<Index> stored_index(const Part& part, const Tuple<Index>& x) {
    Tuple<Index> at = part.offset;
    for (int k = 0; k < x.size(); ++k) at[part.axis[k]] += x[k] * part.step[k];
    return at;
}

std::vector<Part> parts_of(const Reading& reading, const Tensor& tensor, const Meaning& meaning) {
    if (!reading.complete || meaning.kind != Meaning::Kind::parameter) return {own_part(tensor)};
    if (meaning.role == Role::step) {
        Part part = own_part(tensor);
        part.name = part_name(meaning.role, reading.family->tensor(meaning.rule->expression.parts[0]), meaning.indices);
        return {part};
    }
    std::optional<Index> layers;
    if (is_axis(*reading.family, meaning, 'l')) {
        layers = tensor.shape.empty() ? 0 : tensor.shape[0];
        if (*layers == 0)
            throw failure("tensor '{}': shape {}, a leading axis of layers was expected", tensor.name,
                          to_string(tensor.shape));
    }
    if (!has_varying_size(*reading.family, meaning))
        return parts_with_sizes(reading, tensor, meaning, reading.dims, layers);
    return parts_with_sizes(reading, tensor, meaning, sizes_in(reading, tensor, meaning), layers);
}

}  // namespace tpx
