// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/size_conflict.hpp"

#include "lib/layout/parts.hpp"

#include <cstddef>

namespace tpx {
namespace {

/// The size of `axis`; unset if it is padded, or has a factor whose size is unknown or varies.
std::optional<Index> implied_size(const Reading& reading, const Axis& axis) {
    Index size = 1;
    for (const Token token : axis) {
        const std::optional<Index> factor = reading.dims[token.letter];
        if (token.padded || !factor || reading.family->varies(token.letter) ||
            __builtin_mul_overflow(size, *factor, &size))
            return std::nullopt;
    }
    return size;
}

}  // namespace

std::vector<Axis> axes_of_weight(const Reading& reading, const Tensor& tensor, const Meaning& meaning) {
    if (meaning.kind != Meaning::Kind::parameter || meaning.role != Role::weight ||
        meaning.rule->expression.parts.size() > 1)
        return {};
    std::vector<Axis> axes = shape_axes(*reading.family, meaning);
    std::erase_if(axes, [](const Axis& axis) { return axis[0].letter == 'l'; });
    if (std::ssize(axes) > tensor.shape.size()) axes.clear();
    return axes;
}

std::optional<SizeConflict> find_size_conflict(const Reading& reading, std::span<const Tensor> tensors) {
    for (std::uint32_t t = 0; t < tensors.size(); ++t) {
        const std::vector<Axis> axes = axes_of_weight(reading, tensors[t], reading.meanings[t]);
        const int lead = tensors[t].shape.size() - static_cast<int>(axes.size());
        for (int a = 0; a < static_cast<int>(axes.size()); ++a) {
            const auto implied = implied_size(reading, axes[static_cast<std::size_t>(a)]);
            if (implied && *implied != tensors[t].shape[lead + a]) return SizeConflict{t, lead + a, *implied};
        }
    }
    return std::nullopt;
}

}  // namespace tpx
