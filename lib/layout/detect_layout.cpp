// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/detect_layout.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <map>
#include <ranges>
#include <set>
#include <span>
#include <vector>

namespace tpx {
namespace {

/// The boxes of each tensor, sorted and without replicas, as pointers into the catalogue's pieces: a checkpoint may
/// list millions of tensors, and copies of their boxes would double the memory of the pieces.
class StoredBoxes {
public:
    explicit StoredBoxes(const Catalogue& catalogue) : ends_(catalogue.tensors.size()) {
        pieces_.reserve(catalogue.pieces.size());
        for (const Piece& piece : catalogue.pieces) pieces_.push_back(&piece);
        if (!std::ranges::is_sorted(pieces_, {}, &Piece::tensor)) std::ranges::sort(pieces_, {}, &Piece::tensor);
        auto kept = pieces_.begin();
        auto first = pieces_.begin();
        for (std::size_t t = 0; t < ends_.size(); ++t) {
            auto last = first;
            while (last != pieces_.end() && (*last)->tensor == t) ++last;
            kept = std::move(first, tidied(first, last), kept);
            ends_[t] = static_cast<std::size_t>(kept - pieces_.begin());
            first = last;
        }
    }

    std::size_t size() const { return ends_.size(); }
    auto operator[](std::size_t tensor) const {
        const std::size_t begin = tensor == 0 ? 0 : ends_[tensor - 1];
        return std::span{pieces_}.subspan(begin, ends_[tensor] - begin) | std::views::transform(&Piece::box);
    }

private:
    using Pointer = std::vector<const Piece*>::iterator;

    /// Sorts [first, last) by box, moves replicas and, if there are others, empty boxes to its end, and returns where
    /// those begin.
    static Pointer tidied(Pointer first, Pointer last) {
        if (!std::ranges::is_sorted(first, last, {}, &Piece::box)) std::ranges::sort(first, last, {}, &Piece::box);
        last = std::ranges::unique(first, last, {}, &Piece::box).begin();
        if (last - first <= 1) return last;
        return std::remove_if(first, last, [](const Piece* piece) { return empty(piece->box); });
    }

    std::vector<const Piece*> pieces_;
    std::vector<std::size_t> ends_;  // of each tensor's boxes in pieces_
};

/// The meaning of the parameter that a tensor is, or whose codes or scales it stores; null if there is none.
const Meaning* parameter_of(const Meaning& meaning) {
    if (meaning.weight_part) return &meaning.weight_part->meaning;
    return meaning.kind == Meaning::Kind::parameter ? &meaning : nullptr;
}

bool is_cut(const Reading& reading, std::size_t tensor) {
    return parameter_of(reading.meanings[tensor]) != nullptr || !reading.family;
}

/// Whether a tensor belongs to a parameter outside the language model.
bool is_outer(const Reading& reading, std::size_t t) {
    const Meaning* parameter = parameter_of(reading.meanings[t]);
    return parameter != nullptr && reading.family->tensor(parameter->rule->expression.parts[0]).outer;
}

bool explains(const Layout& layout, const Catalogue& catalogue, const Reading& reading, const Cutting& cutting,
              const StoredBoxes& boxes) {
    try {
        const ShardMap map{layout, cutting, {}};
        for (std::size_t t = 0; t < catalogue.tensors.size(); ++t) {
            if (!is_cut(reading, t)) continue;
            std::vector<Box> expected;
            for (const Shard& shard :
                 map.shards(reading, catalogue.tensors[t], reading.meanings[t], stored_sharing(layout)))
                expected.push_back(shard.box);
            std::ranges::sort(expected);
            // Without rules, it is unknown which tensors the trainer left whole, and a frozen tower need not be
            // wrapped.
            const auto stored = boxes[t];
            const bool may_be_whole = !reading.family || is_outer(reading, t);
            const bool left_whole =
                may_be_whole && stored.size() == 1 && stored[0] == whole(catalogue.tensors[t].shape);
            if (!left_whole && !std::ranges::equal(expected, stored)) return false;
        }
        return true;
    } catch (const Error&) {
        return false;
    }
}

Layout claimed_by(const Config& args) {
    Layout layout;
    const auto take = [&](std::string_view key, auto& into) {
        const auto value = integer(args, key);
        if (value && *value >= 1 && *value < (1 << 20)) into = static_cast<int>(*value);
    };
    take("tensor_model_parallel_size", layout.tp);
    take("pipeline_model_parallel_size", layout.pp);
    take("data_parallel_size", layout.dp);
    take("context_parallel_size", layout.cp);
    take("expert_model_parallel_size", layout.ep);
    take("expert_tensor_parallel_size", layout.etp);
    take("virtual_pipeline_model_parallel_size", layout.vpp);
    take("decoder_first_pipeline_num_layers", layout.first);
    take("decoder_last_pipeline_num_layers", layout.last);
    if (layout.etp == layout.tp) layout.etp = 0;
    return layout;
}

/// The divisors of the number of intervals on any axis of a tensor: the only possible degrees.
std::set<int> degrees(const StoredBoxes& boxes) {
    std::set<int> found{1};
    std::vector<Index> begins;
    for (std::size_t t = 0; t < boxes.size(); ++t) {
        const auto list = boxes[t];
        if (list.empty()) continue;
        for (int axis = 0; axis < list[0].size(); ++axis) {
            begins.clear();
            for (const Box& box : list) begins.push_back(box[axis].begin);
            if (!std::ranges::is_sorted(begins)) std::ranges::sort(begins);
            const auto count = static_cast<int>(std::unique(begins.begin(), begins.end()) - begins.begin());
            for (int n = 1; n <= count && n * n <= count; ++n) {
                if (count % n == 0) found.insert({n, count / n});
            }
        }
    }
    return found;
}

int writers(const Catalogue& catalogue) {
    std::int32_t highest = 0;
    for (const Piece& piece : catalogue.pieces) highest = std::max(highest, piece.rank);
    return highest + 1;
}

/// Whether every piece was written by a rank that holds it under `layout`.
bool explains_writers(const Layout& layout, const Catalogue& catalogue, const Reading& reading,
                      const Cutting& cutting) {
    const int count = layers(reading, catalogue.tensors);
    const bool even = layout.stages.empty() && !layout.first && !layout.last;
    if (even && count % layout.pp != 0) return false;
    const ShardMap map{layout, cutting, stages_of_layers(layout, count)};
    const Sharing sharing = stored_sharing(layout);
    std::vector<std::vector<Shard>> cut(catalogue.tensors.size());
    for (const Piece& piece : catalogue.pieces) {
        if (!is_cut(reading, piece.tensor) || piece.rank < 0) continue;
        std::vector<Shard>& list = cut[piece.tensor];
        if (list.empty())
            list = map.shards(reading, catalogue.tensors[piece.tensor], reading.meanings[piece.tensor], sharing);
        const auto shard = std::ranges::find(list, piece.box, &Shard::box);
        if (shard == list.end()) return false;
        const std::vector<int> ranks = map.ranks(*shard, sharing);
        if (!std::ranges::binary_search(ranks, piece.rank)) return false;
    }
    return true;
}

/// How many experts the model has; 0 without any.
Index experts_of(const Reading& reading) {
    const bool any = std::ranges::any_of(reading.meanings, [&](const Meaning& meaning) {
        const Meaning* parameter = parameter_of(meaning);
        return parameter != nullptr && reading.family->tensor(parameter->rule->expression.parts[0]).ep != 0;
    });
    return any ? reading.dims['e'].value_or(0) : 0;
}

/// `layout` with the most stages, and then the most blocks of experts, under which each of `ranks` ranks wrote only
/// boxes that it holds; nothing if that is a single stage and block.
std::optional<Layout> finest(const Layout& layout, int ranks, const Catalogue& catalogue, const Reading& reading,
                             const Cutting& cutting) {
    const int most_blocks = layout.fsdp == 1 ? static_cast<int>(experts_of(reading)) : 0;
    for (int pp = ranks / layout.tp / layout.fsdp; pp > 0; --pp) {
        if (ranks / layout.tp / layout.fsdp % pp != 0) continue;
        Layout fine = layout;
        fine.pp = pp;
        fine.dp = ranks / layout.tp / pp;
        const int of_experts = fine.tp * fine.dp / expert_tp(fine);
        for (fine.ep = std::max(1, std::min(most_blocks, of_experts)); fine.ep > 0; --fine.ep) {
            if (fine.ep > 1 && (most_blocks % fine.ep != 0 || of_experts % fine.ep != 0)) continue;
            if (pp * fine.ep > 1 && explains_writers(fine, catalogue, reading, cutting)) return fine;
        }
    }
    return std::nullopt;
}

/// `layout` extended to all ranks that wrote files: by pipeline stages and blocks of experts if every piece was written
/// by its stage and block, else by replicas.
Layout with_writers(Layout layout, const Catalogue& catalogue, const Reading& reading, const Cutting& cutting) {
    const int ranks = writers(catalogue);
    const int shards = layout.tp * layout.fsdp;
    if (ranks % shards != 0 || (ranks <= shards && (ranks == 1 || (!cutting.equal && layout.etp == 0)))) return layout;
    layout.dp = ranks / layout.tp;
    if (!reading.family) return layout;
    return finest(layout, ranks, catalogue, reading, cutting).value_or(layout);
}

/// `layout` with expert parallelism, on the ranks of FSDP or with a separate mesh axis for FSDP inside experts (efsdp).
std::optional<Layout> with_experts(const Layout& layout, const std::set<int>& candidates, const Catalogue& catalogue,
                                   const Reading& reading, const Cutting& cutting, const StoredBoxes& boxes) {
    for (int ep : candidates) {
        if (ep == 1 || experts_of(reading) % ep != 0) continue;
        Layout dealt = layout;
        dealt.ep = ep;
        if (layout.fsdp % ep == 0 && explains(dealt, catalogue, reading, cutting, boxes)) return dealt;
        if (layout.fsdp == 1) {
            dealt.dp = ep;
            if (explains(dealt, catalogue, reading, cutting, boxes)) return dealt;
            continue;
        }
        for (int efsdp : candidates) {
            dealt.efsdp = efsdp;
            dealt.dp = ep * efsdp;
            if (dealt.dp % layout.fsdp == 0 && explains(dealt, catalogue, reading, cutting, boxes)) return dealt;
        }
    }
    return std::nullopt;
}

}  // namespace

bool is_consistent(const Layout& layout, const Catalogue& catalogue, const Reading& reading, const Cutting& cutting) {
    Cutting together = cutting;
    together.experts_together = true;
    const StoredBoxes boxes{catalogue};
    try {
        for (const Cutting& each : {cutting, together}) {
            if (explains(layout, catalogue, reading, each, boxes))
                return explains_writers(layout, catalogue, reading, each);
        }
    } catch (const Error&) {  // its stages do not fit the layers
    }
    return false;
}

std::optional<Layout> detect_layout(const Catalogue& catalogue, const Reading& reading, const Cutting& cutting) {
    const StoredBoxes boxes{catalogue};
    if (cutting.equal && reading.config.contains("tensor_model_parallel_size")) {
        const Layout claimed = claimed_by(reading.config);
        Cutting together = cutting;
        together.experts_together = true;
        if (!reading.family || explains(claimed, catalogue, reading, cutting, boxes) ||
            explains(claimed, catalogue, reading, together, boxes))
            return claimed;
    }
    const std::set<int> candidates = degrees(boxes);
    const bool has_experts = reading.family && experts_of(reading) > 0;
    const bool dcp_experts = !cutting.equal && has_experts;
    std::set<int> expert_degrees = has_experts ? candidates : std::set<int>{};
    if (dcp_experts) expert_degrees = {1};
    for (int tp : candidates) {
        if (!reading.family && tp > 1) break;
        for (int fsdp : candidates) {
            for (int fsdp_dim : {0, 1}) {
                if (fsdp == 1 && fsdp_dim == 1) continue;
                Layout layout{.tp = tp, .dp = fsdp, .fsdp = fsdp, .fsdp_dim = fsdp_dim};
                if (explains(layout, catalogue, reading, cutting, boxes))
                    return with_writers(layout, catalogue, reading, cutting);
                if (dcp_experts && fsdp_dim == 0) {
                    if (auto with = with_experts(layout, candidates, catalogue, reading, cutting, boxes)) return with;
                }
                for (int etp : expert_degrees) {
                    layout.etp = etp;
                    if (etp != tp && explains(layout, catalogue, reading, cutting, boxes))
                        return with_writers(layout, catalogue, reading, cutting);
                }
            }
        }
    }
    return std::nullopt;
}

}  // namespace tpx
