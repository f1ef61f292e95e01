// SPDX-License-Identifier: Apache-2.0
#include "formats/quantized/stored_parts.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace tpx::formats {
namespace {

/// An axis that is not split.
StoredAxis whole_axis(int axis, Index size, Index stored) {
    return {axis, std::max<Index>(size, 1), std::max<Index>(stored, 1)};
}

/// Axis `axis` of a weight, `size` elements of `bits` each of which are packed into `stored` words. Only as many
/// elements as fill words can be separated from others; where the last word is padded, none can.
StoredAxis packed_axis(int axis, Index size, Index stored, Index bits, Index word_bits) {
    if (size == stored) return {axis, 1, 1};
    const Index common = std::gcd(bits, word_bits);
    const Index unit = word_bits / common, words = bits / common;
    if (size % unit != 0 || size / unit * words != stored) return whole_axis(axis, size, stored);
    return {axis, unit, words};
}

Index bits_of(DType dtype) { return 8 * static_cast<Index>(itemsize(dtype)); }

std::vector<StoredAxis> axes_of_codes(const QuantizedTensor& weight, const Tensor& codes) {
    const Shape& stored = codes.shape;
    const std::vector<int> axes = matrix_axes(weight);
    Index word_bits = bits_of(codes.dtype);
    for (int k = weight.shape.size(); k < stored.size(); ++k) word_bits *= stored[k];
    std::vector<StoredAxis> all;
    for (int k = 0; k < stored.size(); ++k) {
        if (k >= std::ssize(axes)) {  // the bytes of an MXFP4 block
            all.emplace_back();
            continue;
        }
        const int axis = axes[static_cast<std::size_t>(k)];
        all.push_back(packed_axis(axis, weight.shape[axis], stored[k], weight.scaled.bits, word_bits));
    }
    return all;
}

/// Scales, and zeros beside them: one for each block. One for all of an axis belongs to all of its parts.
std::vector<StoredAxis> axes_of_scales(const QuantizedTensor& weight, const Shape& stored) {
    if (volume(stored) == 1) return std::vector<StoredAxis>(static_cast<std::size_t>(stored.size()));
    const std::vector<int> axes = matrix_axes(weight);
    std::vector<StoredAxis> all;
    for (int k = 0; k < stored.size() && k < std::ssize(axes); ++k) {
        const int axis = axes[static_cast<std::size_t>(k)];
        const int from_end = static_cast<int>(std::ssize(axes)) - k;
        Index unit = 1;
        if (from_end == 1) unit = weight.scaled.block_columns;
        if (from_end == 2) unit = weight.scaled.block_rows;
        const bool is_of_all = stored[k] == 1 && weight.shape[axis] > 1;
        all.push_back(is_of_all ? StoredAxis{} : StoredAxis{axis, std::max<Index>(unit, 1), 1});
    }
    return all;
}

}  // namespace

std::vector<int> matrix_axes(const QuantizedTensor& weight) {
    std::vector<int> axes(static_cast<std::size_t>(weight.shape.size()));
    std::iota(axes.begin(), axes.end(), 0);
    std::ranges::stable_sort(axes, std::ranges::greater{}, [&](int axis) { return weight.strides[axis]; });
    return axes;
}

bool has_groups(const Catalogue& catalogue, const QuantizedTensor& weight) {
    return std::ranges::any_of(
        weight.sources, [&](const Piece& piece) { return catalogue.tensors[piece.tensor].name.ends_with(".g_idx"); });
}

int axis_of_groups(const Shape& weight) { return weight.size() - 1; }

std::map<std::uint32_t, std::vector<StoredAxis>> stored_parts(const Catalogue& catalogue, const QuantizedTensor& weight,
                                                              bool has_numbered_groups) {
    std::map<std::uint32_t, std::vector<StoredAxis>> parts;
    const int grouped = axis_of_groups(weight.shape);
    for (std::size_t k = 0; k < weight.sources.size(); ++k) {
        const std::uint32_t number = weight.sources[k].tensor;
        const Tensor& stored = catalogue.tensors[number];
        if (k == 0)
            parts[number] = axes_of_codes(weight, stored);
        else if (k == 1 || stored.name.ends_with("_zero_point"))
            parts[number] = axes_of_scales(weight, stored.shape);
        else if (stored.name.ends_with(".qzeros"))
            parts[number] = {
                axes_of_scales(weight, stored.shape)[0],
                packed_axis(0, weight.shape[0], stored.shape[1], weight.scaled.bits, bits_of(stored.dtype))};
        else
            parts[number].resize(static_cast<std::size_t>(stored.shape.size()));
        if (!has_numbered_groups) continue;
        for (std::size_t a = 0; a < parts[number].size(); ++a)
            if (StoredAxis& axis = parts[number][a]; axis.axis == grouped)
                axis = whole_axis(grouped, weight.shape[grouped], stored.shape[static_cast<int>(a)]);
    }
    return parts;
}

}  // namespace tpx::formats
