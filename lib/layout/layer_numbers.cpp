// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/layer_numbers.hpp"

#include "lib/core/error.hpp"

#include <algorithm>

namespace tpx {
namespace {

/// If names count from a bound that the configuration does not contain, sets the bound to the number of layers below
/// it.
void find_bounds(Reading& reading, std::span<const Tensor> tensors) {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        const Meaning& meaning = reading.meanings[t];
        if (meaning.kind != Meaning::Kind::parameter) continue;
        const NameTemplate::Range range = meaning.rule->name.range('l');
        if (range.letter == 0 || range.sign != '<' || reading.dims[range.letter]) continue;
        Index bound = 0;
        for (std::size_t other = t; other < tensors.size(); ++other) {
            const Meaning& same = reading.meanings[other];
            if (same.kind != Meaning::Kind::parameter || same.rule->name.range('l').letter != range.letter ||
                same.rule->name.range('l').sign != '<')
                continue;
            const bool axis = !same.indices.layer && !tensors[other].shape.empty();
            bound = std::max<Index>(bound, axis ? tensors[other].shape[0] : same.indices.layer.value_or(-1) + 1);
        }
        reading.dims.set(range.letter, bound);
    }
}

/// Gives `meaning` a rule that matches the same name and includes the numbers in it. Returns false if there is none.
bool choose_by_number(const Reading& reading, Meaning& meaning) {
    const std::string name = meaning.rule->name.name(meaning.indices, false);
    for (const Rule& rule : reading.dialect->rules) {
        const auto numbers = rule.name.match(name);
        const auto indices = numbers ? indices_of(rule.name, *numbers, reading.dims) : std::nullopt;
        if (!indices) continue;
        meaning.rule = &rule;
        meaning.indices = *indices;
        return true;
    }
    return false;
}

/// Why no layer has the number in the name of a tensor that `meaning` describes.
Error no_such_layer(const Reading& reading, const Tensor& tensor, const Meaning& meaning) {
    const NameTemplate::Range range = meaning.rule->name.range('l');
    const auto bound = reading.dims[range.letter];
    if (!bound) return failure("tensor '{}': the number of layers is unknown; pass --config config.json", tensor.name);
    if (range.sign != '<')
        return failure("tensor '{}': the configuration has {} layers, which no model has", tensor.name, *bound);
    return failure("tensor '{}': layer {} does not exist: the configuration has {}", tensor.name,
                   meaning.indices.layer.value_or(0),
                   *bound < 1    ? "no layers"
                   : *bound == 1 ? "layer 0 alone"
                                 : fmt::format("layers 0 to {}", *bound - 1));
}

}  // namespace

void resolve_indices(Reading& reading, std::span<const Tensor> tensors) {
    find_bounds(reading, tensors);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        Meaning& meaning = reading.meanings[t];
        if (meaning.kind != Meaning::Kind::parameter) continue;
        const auto indices = indices_of(meaning.rule->name, meaning.indices, reading.dims);
        if (indices)
            meaning.indices = *indices;
        else if (!choose_by_number(reading, meaning))
            throw no_such_layer(reading, tensors[t], meaning);
    }
}

void count_layers(Reading& reading) {
    if (!reading.family->dims.contains('L') || reading.dims['l']) return;
    Index count = reading.dims['L'].value_or(0);
    for (const Meaning& meaning : reading.meanings)
        if (meaning.kind == Meaning::Kind::parameter && meaning.indices.layer)
            count = std::max<Index>(count, *meaning.indices.layer + 1);
    if (count > 0) reading.dims.set('l', count);
}

}  // namespace tpx
