// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/shard.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/parts.hpp"

#include <algorithm>
#include <numeric>

namespace tpx {
namespace {

/// Where tensor parallelism cuts: each of `blocks` on `axis` into tp parts; a rank has its part of each.
struct Cut {
    int axis = -1;
    std::vector<Interval> blocks;
    int tp = 1;
};

bool stands_first(const Axis& axis, char letter) { return !axis.empty() && axis[0].letter == letter; }

/// The factors of `part` that stand at a '+', in order.
std::vector<char> at_plus(const CanonicalTensor& part, const std::vector<Axis>& stored) {
    std::vector<char> letters;
    for (const Axis& axis : part.axes) {
        for (Token token : axis) {
            const bool elsewhere = std::ranges::any_of(
                stored, [&](const Axis& a) { return std::ranges::count(a, token.letter, &Token::letter) > 0; });
            if (!elsewhere && !part.is_index(token.letter)) letters.push_back(token.letter);
        }
    }
    return letters;
}

/// The blocks of the parts on an axis of `size` that begins with '+'. Sizes of factors are needed only if the parts
/// differ.
std::vector<Interval> part_blocks(const Reading& reading, const Expression& expression, Index size) {
    std::vector<std::vector<char>> letters;
    for (const std::string& part : expression.parts)
        letters.push_back(at_plus(reading.family->tensor(part), expression.axes));
    const Index count = static_cast<Index>(letters.size());
    const bool alike = std::ranges::all_of(letters, [&](const auto& l) { return l == letters[0]; });
    std::vector<Interval> blocks;
    for (const auto& part : letters) {
        Index length = alike && size % count == 0 ? size / count : 1;
        if (!alike) {
            for (char letter : part) length *= reading.dims[letter].value_or(0);
        }
        const Index begin = blocks.empty() ? 0 : blocks.back().end;
        blocks.push_back({begin, begin + length});
    }
    if (blocks.back().end != size) throw failure("its parts cannot be told apart on an axis of {}", size);
    return blocks;
}

/// The axis of a stored tensor that begins with an index of its parts, or -1.
int index_axis(const Reading& reading, const Meaning& meaning, char index) {
    if (!is_axis(*reading.family, meaning, index)) return -1;
    const std::vector<Axis> axes = shape_axes(*reading.family, meaning);
    const auto found = std::ranges::find_if(axes, [&](const Axis& axis) { return stands_first(axis, index); });
    if (found == axes.end() || found->size() > 1)
        throw failure("its experts have no axis of their own, so they cannot be told apart");
    return static_cast<int>(found - axes.begin());
}

Cut find_cut(const Reading& reading, const Tensor& tensor, const Meaning& meaning, const Layout& layout) {
    const Expression& expression = meaning.rule->expression;
    const CanonicalTensor& first = reading.family->tensor(expression.parts[0]);
    const char factor = tp_factor(reading, first);
    if (factor == 0) return {};
    const int tp = first.ep != 0 ? expert_tp(layout) : layout.tp;
    const std::vector<Axis> axes = shape_axes(*reading.family, meaning);
    for (std::size_t a = 0; a < axes.size(); ++a) {
        const int axis = static_cast<int>(a);
        if (stands_first(axes[a], factor)) return {axis, {{0, tensor.shape[axis]}}, tp};
        if (!stands_first(axes[a], '+')) continue;
        const auto brought = at_plus(first, axes);
        if (!brought.empty() && brought[0] == factor)
            return {axis, part_blocks(reading, expression, tensor.shape[axis]), tp};
    }
    throw failure("factor '{}' does not lead an axis, so it cannot be cut for tensor parallelism", factor);
}

/// The degrees up to twice the one asked for that divide `size`, the largest six: "1, 2, 4".
std::string fitting(Index size, int degree) {
    std::vector<int> found;
    for (int n = 1; n <= 2 * degree; ++n) {
        if (size % n == 0) found.push_back(n);
    }
    if (found.size() > 6) found.erase(found.begin(), found.end() - 6);
    return fmt::format("{}", fmt::join(found, ", "));
}

Error cannot_cut(Interval block, int tp) {
    return Error{Exit::usage, "{} rows or columns cannot be cut into tp={} equal parts; tp={} can", block.size(), tp,
                 fitting(block.size(), tp)};
}

int fsdp_axis(const Box& box, const Layout& layout) {
    const bool second = layout.fsdp_dim == 1 && box.size() > 1 && box[1].size() % layout.fsdp == 0;
    return second ? 1 : 0;
}

/// The shards of FSDP, and the axis along which they lie. It cuts inside experts where a rank has fewer of them than
/// there are shards, as torchtitan does, and where it has a mesh axis beside theirs.
std::pair<int, int> fsdp_cut(const Shard& shard, const Layout& layout) {
    if (!shard.experts || layout.ep == 1 || layout.fsdp == 1) return {layout.fsdp, fsdp_axis(shard.box, layout)};
    const int degree = expert_fsdp(layout);
    const bool inside = layout.efsdp > 0 || degree > shard.box[0].size();
    return {degree, inside && shard.box.size() > 1 ? 1 : 0};
}

/// Adds the parts that FSDP2 makes of what a tensor-parallel rank holds.
void add_fsdp(std::vector<Shard>& out, const Shard& shard, const Layout& layout) {
    if (layout.fsdp == 1 || shard.whole || shard.box.empty() || volume(shard.box) == 0) {
        out.push_back(shard);
        return;
    }
    const auto [degree, axis] = fsdp_cut(shard, layout);
    for (int position = 0; position < degree; ++position) {
        Shard piece = shard;
        piece.fsdp = position;
        piece.box[axis] = chunk(shard.box[axis], degree, position);
        if (!empty(piece.box)) out.push_back(piece);
    }
}

int stage_of(const Reading& reading, const Meaning& meaning, const Layout& layout, const std::vector<int>& stages,
             int layer) {
    if (layer >= 0) return layer < static_cast<int>(stages.size()) ? stages[layer] : layout.pp - 1;
    if (meaning.kind != Meaning::Kind::parameter) return 0;
    return reading.family->tensor(meaning.rule->expression.parts[0]).last ? layout.pp - 1 : 0;
}

/// Cuts one slice of a tensor (all of it, or one of its stacked layers and experts) for tensor parallelism and FSDP.
void cut_slice(std::vector<Shard>& found, Shard shard, const Cut& cut, const Layout& layout, bool equal) {
    // Megatron stores the blocks of a fused tensor apart even when one rank has all of them.
    const bool in_blocks = equal && cut.blocks.size() > 1;
    if (cut.axis < 0 || (cut.tp == 1 && !in_blocks)) return add_fsdp(found, shard, layout);
    for (shard.tp = 0; shard.tp < cut.tp; ++shard.tp) {
        for (Interval block : cut.blocks) {
            if (equal && block.size() % cut.tp != 0) throw cannot_cut(block, cut.tp);
            shard.box[cut.axis] = chunk(block, cut.tp, shard.tp);
            if (!empty(shard.box)) add_fsdp(found, shard, layout);
        }
    }
}

/// What experts have beyond other tensors: blocks of them lie on different ranks.
struct Experts {
    Index count = 0;  ///< 0: the tensor belongs to no expert
    int axis = -1;    ///< of the experts in the stored tensor; -1: one expert, named

    int block_of(Index expert, const Layout& layout) const { return static_cast<int>(expert * layout.ep / count); }
};

Experts experts_of(const Reading& reading, const Tensor& tensor, const Meaning& meaning, const Layout& layout) {
    if (reading.family->tensor(meaning.rule->expression.parts[0]).ep == 0) return {};
    Experts experts{.axis = index_axis(reading, meaning, 'e')};
    experts.count = experts.axis >= 0 ? tensor.shape[experts.axis] : reading.dims['e'].value_or(0);
    if (experts.count <= meaning.indices.expert.value_or(0))
        throw failure("expert {} of {}", meaning.indices.expert.value_or(0), experts.count);
    if (experts.count % layout.ep != 0)
        throw Error{Exit::usage, "{} experts cannot be dealt to ep={} equal blocks; ep={} can", experts.count,
                    layout.ep, fitting(experts.count, layout.ep)};
    return experts;
}

/// Cuts one slice along its axis of experts: one by one, or block by block.
void cut_experts(std::vector<Shard>& found, Shard shard, const Experts& experts, const Cut& cut, const Layout& layout,
                 const Meaning& meaning, const Cutting& cutting) {
    shard.experts = experts.count > 0;
    if (experts.axis < 0) {
        if (shard.experts) shard.ep = experts.block_of(meaning.indices.expert.value_or(0), layout);
        return cut_slice(found, shard, cut, layout, cutting.equal);
    }
    const Index step = cutting.by_layer && !cutting.experts_together ? 1 : experts.count / layout.ep;
    for (Index begin = 0; begin < experts.count; begin += step) {
        shard.box[experts.axis] = {begin, begin + step};
        shard.ep = experts.block_of(begin, layout);
        cut_slice(found, shard, cut, layout, cutting.equal);
    }
}

std::vector<Shard> cut_tensor(const Reading& reading, const Tensor& tensor, const Meaning& meaning,
                              const Layout& layout, const std::vector<int>& stages, const Cutting& cutting) {
    // What is known to be no parameter, or not known at all among known ones, is nobody's to cut.
    if (meaning.kind == Meaning::Kind::extra || (meaning.kind == Meaning::Kind::unknown && reading.family))
        return {Shard{.box = whole(tensor.shape), .stage = 0}};
    const bool parameter = meaning.kind == Meaning::Kind::parameter && !tensor.shape.empty();
    const Experts experts = parameter ? experts_of(reading, tensor, meaning, layout) : Experts{};
    const bool by_layer = parameter && is_axis(*reading.family, meaning, 'l') && cutting.by_layer;
    const Cut cut = parameter ? find_cut(reading, tensor, meaning, layout) : Cut{};
    std::vector<Shard> found;
    for (int slice = 0; slice < (by_layer ? static_cast<int>(tensor.shape[0]) : 1); ++slice) {
        Shard shard{.box = whole(tensor.shape)};
        if (by_layer) shard.box[0] = {slice, slice + 1};
        shard.whole = parameter && reading.family->tensor(meaning.rule->expression.parts[0]).buffer;
        shard.stage = stage_of(reading, meaning, layout, stages, by_layer ? slice : meaning.indices.layer.value_or(-1));
        cut_experts(found, shard, experts, cut, layout, meaning, cutting);
    }
    return found;
}

/// Which shard of FSDP the ranks at `dp` have. With a mesh axis of its own, those of one shard follow each other.
int shard_of(const Layout& layout, const Shard& shard, int dp) {
    if (shard.experts && layout.ep > 1) return dp % expert_fsdp(layout);
    return layout.efsdp > 0 ? dp / layout.hsdp() : dp % layout.fsdp;
}

}  // namespace

std::vector<Shard> shards(const Reading& reading, const Tensor& tensor, const Meaning& meaning, const Layout& layout,
                          const std::vector<int>& stages, const Cutting& cutting) {
    return in_context([&] { return fmt::format("tensor '{}'", tensor.name); },
                      [&] { return cut_tensor(reading, tensor, meaning, layout, stages, cutting); });
}

std::vector<int> holders(const Layout& layout, const Shard& shard) {
    std::vector<int> ranks;
    const auto all_or = [](int one, int size) { return one >= 0 ? Interval{one, one + 1} : Interval{0, size}; };
    const Interval tps = all_or(shard.tp, shard.experts ? expert_tp(layout) : layout.tp);
    const Interval blocks = shard.experts ? all_or(shard.ep, layout.ep) : Interval{0, layout.cp};
    const Interval stages = all_or(shard.stage, layout.pp);
    const int replicas = shard.experts ? expert_dp(layout) : layout.dp;
    for (int pp = static_cast<int>(stages.begin); pp < stages.end; ++pp) {
        for (int dp = 0; dp < replicas; ++dp) {
            if (shard.fsdp >= 0 && shard_of(layout, shard, dp) != shard.fsdp) continue;
            for (int block = static_cast<int>(blocks.begin); block < blocks.end; ++block) {
                for (int tp = static_cast<int>(tps.begin); tp < tps.end; ++tp)
                    ranks.push_back(shard.experts ? expert_rank_at(layout, {tp, block, dp, pp})
                                                  : rank_at(layout, {tp, pp, dp, block}));
            }
        }
    }
    std::ranges::sort(ranks);
    return ranks;
}

void check_layout(const Reading& reading, const Layout& layout) {
    if (!reading.family) {
        if (layout.tp > 1 || layout.pp > 1)
            throw Error{Exit::usage,
                        "layout: {}: only fsdp and dp can change a checkpoint whose tensors no rule explains ({})",
                        to_string(layout), reading.why_not};
        return;
    }
    for (const std::string& formula : reading.family->tp_divides) {
        const auto size = reading.dims.evaluate(formula, reading.config);
        if (!size || *size % layout.tp == 0) continue;
        throw Error{Exit::usage, "layout: tp={} does not divide {} = {}; tp={} can",
                    layout.tp,   formula == "n" ? "the attention heads" : formula,
                    *size,       fitting(*size, layout.tp)};
    }
}

}  // namespace tpx
