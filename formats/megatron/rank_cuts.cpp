// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/rank_cuts.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/shard_map.hpp"

#include <algorithm>
#include <optional>

namespace tpx::formats::megatron {
namespace {

/// The shape of boxes joined along the axis on which they differ; unset if they differ on several axes.
std::optional<Shape> joined(const std::vector<Box>& boxes) {
    if (boxes.empty()) return std::nullopt;
    Shape shape = sizes(boxes[0]);
    for (std::size_t k = 1; k < boxes.size(); ++k) {
        int differing = 0;
        for (int axis = 0; axis < shape.size(); ++axis) {
            if (boxes[k][axis] == boxes[0][axis]) continue;
            ++differing;
            shape[axis] += boxes[k][axis].size();
        }
        if (differing != 1) return std::nullopt;
    }
    return shape;
}

bool gives(const Reading& reading, const Tensor& tensor, const Meaning& meaning, const Shape& local, int tp) {
    try {
        return joined(boxes_of_rank(reading, tensor, meaning, tp, 0)) == local;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace

std::vector<Box> boxes_of_rank(const Reading& reading, const Tensor& tensor, const Meaning& meaning, int tp, int rank) {
    // Without a family there is only one rank, which has everything. Only parameters are split.
    if (!reading.family || meaning.kind != Meaning::Kind::parameter) return {whole(tensor.shape)};
    const ShardMap map{Layout{.tp = tp}, {.equal = true, .by_layer = false}, {}};
    std::vector<Box> boxes;
    for (const Shard& shard : map.shards(reading, tensor, meaning, Sharing::none)) {
        const std::vector<int> ranks = map.ranks(shard, Sharing::none);
        if (std::ranges::find(ranks, rank) != ranks.end()) boxes.push_back(shard.box);
    }
    return boxes;
}

int cut_axis(const std::vector<Box>& boxes, const Shape& whole) {
    for (int axis = 0; axis < whole.size(); ++axis) {
        for (const Box& box : boxes) {
            if (box[axis] != Interval{0, whole[axis]}) return axis;
        }
    }
    return -1;
}

Shape whole_shape(const Reading& reading, const std::string& name, const Meaning& meaning, const Shape& local, int tp) {
    if (tp == 1) return local;
    if (!reading.family) throw failure("tensor '{}': how it is split is unknown: {}", name, reading.why_not);
    if (meaning.kind == Meaning::Kind::unknown)
        throw failure(
            "tensor '{}': no rule of family '{}' defines how it is split; add one with --rules: [\"{}\", "
            "\"CANONICAL\"]",
            name, reading.family->name, name);
    std::optional<Shape> found;
    for (int axis = -1; axis < local.size(); ++axis) {
        Shape shape = local;
        if (axis >= 0 && __builtin_mul_overflow(shape[axis], Index{tp}, &shape[axis])) continue;
        if (checked_volume(shape) < 0 || !gives(reading, {name, DType::u8, shape}, meaning, local, tp)) continue;
        if (found && *found != shape)
            throw failure("tensor '{}': how {} was split is ambiguous", name, to_string(local));
        found = shape;
    }
    if (!found)
        throw failure("tensor '{}': the rule of family '{}' does not split any tensor into {} parts of shape {}", name,
                      reading.family->name, tp, to_string(local));
    return *found;
}

}  // namespace tpx::formats::megatron
