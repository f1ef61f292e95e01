// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/factored_axes.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <optional>

namespace tpx {
namespace {

using Factor = FactoredAxis::Factor;

/// The factors of a part at the '+': those that are on no axis, and the one that repeats it.
std::vector<Factor> places_at_plus(const Family& family, const Expression& expression, std::size_t part,
                                   const std::vector<char>& elsewhere, const Dims& dims, Index step) {
    std::vector<Factor> places;
    const CanonicalTensor& tensor = family.tensor(expression.parts[part]);
    for (char letter : letters_of(tensor.axes)) {
        if (!tensor.is_index(letter) && std::ranges::find(elsewhere, letter) == elsewhere.end())
            places.push_back({letter, 0, factor_size(dims, letter)});
    }
    if (const char repeat = repeat_of(expression, part)) places.push_back({repeat, 0, factor_size(dims, repeat)});
    for (auto place = places.rbegin(); place != places.rend(); ++place) {
        place->step = step;
        step *= place->size;
    }
    return places;
}

Index extent(const std::vector<Factor>& places) {
    Index product = 1;
    for (const Factor& place : places) product *= place.size;
    return product;
}

/// The axis along which blocks of parts are stacked.
FactoredAxis stacked_blocks(const Expression& expression) {
    const std::size_t count = expression.parts.size();
    FactoredAxis axis{.has_parts = true};
    axis.part_places.resize(count);
    for (std::size_t part = 0; part < count; ++part)
        axis.part_begin.push_back(static_cast<Index>(part / expression.block));
    axis.size = static_cast<Index>(count / expression.block);
    return axis;
}

FactoredAxis factored(const Family& family, const Expression& expression, const Axis& axis,
                      const std::vector<char>& elsewhere, const Dims& dims) {
    if (axis[0].letter == '#') return stacked_blocks(expression);
    FactoredAxis result;
    Index step = 1;
    for (auto token = axis.rbegin(); token != axis.rend(); ++token) {
        if (token->letter == '+') {
            result.has_parts = true;
            result.before_parts = static_cast<std::size_t>(axis.rend() - token) - 1;
            Index begin = 0;
            for (std::size_t part = 0; part < expression.parts.size(); ++part) {
                if (expression.block > 0 && part % expression.block == 0) begin = 0;
                result.part_places.push_back(places_at_plus(family, expression, part, elsewhere, dims, step));
                result.part_begin.push_back(begin);
                begin += extent(result.part_places.back()) * step;
            }
            step = begin;
        } else {
            const Index size = factor_size(dims, token->letter);
            result.places.insert(result.places.begin(), {token->letter, step, size});
            result.padded |= token->padded;
            step *= size;
        }
    }
    result.size = step;
    return result;
}

std::vector<FactoredAxis> all_factored(const Family& family, const Meaning& meaning, const std::vector<Axis>& axes,
                                       const Dims& dims, Index layers) {
    const std::vector<char> elsewhere = letters_of(axes);
    Dims sizes = dims;
    sizes.set('l', layers);
    std::vector<FactoredAxis> result;
    for (const Axis& axis : axes) result.push_back(factored(family, meaning.rule->expression, axis, elsewhere, sizes));
    return result;
}

bool fits_axes(const Shape& shape, const std::vector<FactoredAxis>& axes) {
    bool fits = shape.size() == static_cast<int>(axes.size());
    for (std::size_t k = 0; fits && k < axes.size(); ++k) {
        const Index have = shape[static_cast<int>(k)];
        fits = axes[k].padded ? have >= axes[k].size : have == axes[k].size;
    }
    return fits;
}

/// The result of sizes_in(), or nothing if the shape does not give the sizes. If `cause` is not null, it is set to the
/// reason.
std::optional<Dims> find_sizes(const Reading& reading, const Tensor& tensor, const Meaning& meaning,
                               std::string* cause) {
    const std::vector<Axis> axes = shape_axes(*reading.family, meaning);
    if (std::ssize(axes) != tensor.shape.size()) {
        if (cause) *cause = fmt::format(", but {} axes were expected", axes.size());
        return std::nullopt;
    }
    // Layers that share a stored tensor have the same sizes.
    const int layer = meaning.indices.layer.value_or(0);
    Dims sizes = sizes_in_layer(reading, layer);
    for (std::size_t a = 0; a < axes.size(); ++a) {
        Index known = 1;
        char varying = 0;
        for (Token token : axes[a]) {
            const auto size = sizes[token.letter];
            if (!size) varying = token.letter;
            if (__builtin_mul_overflow(known, size.value_or(1), &known)) known = 0;  // no axis is that long
        }
        if (!reading.family->varies(varying)) continue;
        const Index length = tensor.shape[static_cast<int>(a)];
        if (known <= 0 || length % known != 0) {
            if (cause) *cause = fmt::format(": the length of axis {} is not a multiple of {}", a, known);
            return std::nullopt;
        }
        sizes.set(varying, length / known);
    }
    return sizes;
}

/// Whether `sizes` has all factors of the parts of a stored tensor.
bool has_all_sizes(const Reading& reading, const Meaning& meaning, const Dims& sizes) {
    return std::ranges::all_of(meaning.rule->expression.parts, [&](const std::string& part) {
        return std::ranges::all_of(letters_of(reading.family->tensor(part).axes),
                                   [&](char letter) { return letter == 'l' || sizes[letter]; });
    });
}

}  // namespace

std::vector<char> letters_of(const std::vector<Axis>& axes) {
    std::vector<char> letters;
    for (const Axis& axis : axes) {
        for (Token token : axis) letters.push_back(token.letter);
    }
    return letters;
}

Index factor_size(const Dims& dims, char letter) {
    const auto size = dims[letter];
    if (!size) throw failure("the size of factor '{}' is unknown", letter);
    return *size;
}

char repeat_of(const Expression& expression, std::size_t part) {
    return expression.repeats.empty() ? '\0' : expression.repeats[part];
}

std::vector<Axis> stored_axes(const Family& family, const Meaning& meaning) {
    const Expression& expression = meaning.rule->expression;
    const bool stacked = is_axis(family, meaning, 'l');
    std::vector<Axis> axes = expression.axes;
    if (!axes.empty()) {
        if (stacked) axes.insert(axes.begin(), Axis{{'l'}});
        return axes;
    }
    const CanonicalTensor& tensor = family.tensor(expression.parts[0]);
    for (Axis axis : tensor.axes) {
        std::erase_if(axis, [&](Token token) {
            return tensor.is_index(token.letter) && !is_axis(family, meaning, token.letter);
        });
        if (!axis.empty()) axes.push_back(axis);
    }
    return axes;
}

std::vector<Axis> shape_axes(const Family& family, const Meaning& meaning) {
    if (meaning.rule->expression.shape.empty()) return stored_axes(family, meaning);
    std::vector<Axis> axes = meaning.rule->expression.shape;
    if (is_axis(family, meaning, 'l')) axes.insert(axes.begin(), Axis{{'l'}});
    return axes;
}

bool has_varying_size(const Family& family, const Meaning& meaning) {
    return std::ranges::any_of(meaning.rule->expression.parts, [&](const std::string& part) {
        return std::ranges::any_of(letters_of(family.tensor(part).axes),
                                   [&](char letter) { return family.varies(letter); });
    });
}

Dims sizes_in(const Reading& reading, const Tensor& tensor, const Meaning& meaning) {
    std::string cause;
    auto sizes = find_sizes(reading, tensor, meaning, &cause);
    if (!sizes) throw failure("tensor '{}': shape {}{}", tensor.name, to_string(tensor.shape), cause);
    return *std::move(sizes);
}

std::vector<FactoredAxis> factored_axes(const Family& family, const Meaning& meaning, const Dims& dims, Index layers) {
    return all_factored(family, meaning, stored_axes(family, meaning), dims, layers);
}

std::vector<FactoredAxis> factored_shape(const Family& family, const Meaning& meaning, const Dims& dims, Index layers) {
    return all_factored(family, meaning, shape_axes(family, meaning), dims, layers);
}

bool fits_shape(const Reading& reading, const Tensor& tensor, const Meaning& meaning) {
    if (std::ssize(shape_axes(*reading.family, meaning)) != tensor.shape.size()) return false;
    const bool varies = has_varying_size(*reading.family, meaning);
    const auto sizes = varies ? find_sizes(reading, tensor, meaning, nullptr) : std::optional{reading.dims};
    if (!sizes || !has_all_sizes(reading, meaning, *sizes)) return false;
    const Index layers = is_axis(*reading.family, meaning, 'l') ? tensor.shape[0] : 0;
    return fits_axes(tensor.shape, factored_shape(*reading.family, meaning, *sizes, layers));
}

Shape expected_shape(const Reading& reading, const Tensor& tensor, const Meaning& meaning) {
    const bool stacked = is_axis(*reading.family, meaning, 'l') && !tensor.shape.empty();
    const Dims& sizes = has_varying_size(*reading.family, meaning) ? sizes_in(reading, tensor, meaning) : reading.dims;
    Shape asked;
    for (const FactoredAxis& axis : factored_shape(*reading.family, meaning, sizes, stacked ? tensor.shape[0] : 0))
        asked.push_back(axis.size);
    return asked;
}

void check_shape(const Tensor& tensor, const std::vector<FactoredAxis>& axes) {
    Shape expected;
    for (std::size_t k = 0; k < axes.size() && k < std::size_t{max_rank}; ++k) expected.push_back(axes[k].size);
    if (!fits_axes(tensor.shape, axes))
        throw failure("tensor '{}': shape {}, the configuration asks for {}", tensor.name, to_string(tensor.shape),
                      to_string(expected));
}

}  // namespace tpx
