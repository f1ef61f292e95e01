// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/buffer_shares.hpp"

#include "formats/megatron/flat_cut.hpp"
#include "formats/megatron/rank_grid.hpp"
#include "formats/megatron/rank_optimizer.hpp"
#include "formats/megatron/rank_parts.hpp"
#include "formats/megatron/stage_buffers.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/dims.hpp"
#include "lib/layout/grid.hpp"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

namespace tpx::formats {
namespace {

using namespace megatron;

/// A range of a buffer's vector, and its owner: an index (from 0) into the ranks that share the buffer.
struct BufferShare {
    Interval range;
    int owner = 0;
};

/// Splits each bucket, padded to a multiple of padding_multiple(ranks), into `ranks` equal ranges; ascending, without
/// the padding.
std::vector<BufferShare> shares_of(const BufferLayout& places, int ranks) {
    const Index multiple = padding_multiple(ranks);
    std::vector<BufferShare> shares;
    Index begin = 0;
    for (const Index size : places.buckets) {
        const Index part = (size + multiple - 1) / multiple * multiple / ranks;
        for (Index at = 0; at < size; at += part)
            shares.push_back({{begin + at, begin + std::min(at + part, size)}, static_cast<int>(at / part)});
        begin += size;
    }
    return shares;
}

class BufferSplit {
public:
    BufferSplit(const Content& content, const Config& args) : content_{content}, args_{args} {}

    std::vector<Piece> run() {
        const Layout& layout = content_.layout;
        const bool separate_experts = two_optimizers(args_, layout);
        if (!separate_experts && integer(args_, "num_experts").value_or(0) > 0 && expert_tp(layout) != layout.tp)
            throw failure(
                "experts (etp={}) and other parameters (tp={}) share a buffer; this is not supported without "
                "ep > 1",
                expert_tp(layout), layout.tp);
        if (const auto instances = integer(args_, "num_distributed_optimizer_instances").value_or(1); instances > 1)
            throw failure("num_distributed_optimizer_instances={} is not supported", instances);
        RankParts parts{content_, args_};
        for (const RankDirectory& directory : model_parts(layout)) {
            const std::vector<RankParameter> parameters = parts.of(directory);
            for (const RankParameter& parameter : parameters) {
                if (!parameter.dtypes.contains(Role::weight))
                    throw failure("'{}' has optimizer state but no weight", parameter.name);
            }
            add_directory(directory, parameters, separate_experts, false);
            if (separate_experts) add_directory(directory, parameters, separate_experts, true);
        }
        return std::move(pieces_);
    }

private:
    void add_directory(const RankDirectory& directory, const std::vector<RankParameter>& parameters,
                       bool separate_experts, bool experts) {
        const Grid grid = experts ? expert_grid(content_.layout) : dense_grid(content_.layout);
        const Owner owner{
            .stage = directory.pp, .block = experts ? directory.ep : 0, .part = experts ? directory.etp : directory.tp};
        if (!done_.insert({experts, owner}).second) return;
        std::vector<std::int32_t> ranks(static_cast<std::size_t>(grid.replicas()));
        for (const std::int32_t rank : grid.ranks_of(owner, Sharing::none))
            ranks[static_cast<std::size_t>(grid.replica(rank))] = rank;
        for (const Buffer& buffer : buffers_of(parameters, separate_experts, experts)) {
            const BufferLayout places = places_of(buffer, args_, content_.layout, directory.pp, experts);
            const auto shares = shares_of(places, static_cast<int>(ranks.size()));
            for (std::size_t k = 0; k < buffer.size(); ++k) add_parameter(*buffer[k], places.begin[k], shares, ranks);
        }
    }

    void add_parameter(const RankParameter& parameter, Index begin, std::span<const BufferShare> shares,
                       std::span<const std::int32_t> ranks) {
        for (const auto& [role, parts] : parameter.parts) {
            if (role == Role::weight) continue;
            for (const RankPart& part : parts) add_part(part, begin + part.begin, shares, ranks);
        }
    }

    /// Splits `part`, which starts at element `first` of the buffer's vector, among `shares`.
    void add_part(const RankPart& part, Index first, std::span<const BufferShare> shares,
                  std::span<const std::int32_t> ranks) {
        const Index end = flat_range(part.box, part.strides, first).end;
        auto share = std::ranges::upper_bound(shares, first, {}, [](const BufferShare& s) { return s.range.end; });
        for (; share != shares.end() && share->range.begin < end; ++share) {
            for (const FlatBox& cut : cut_flat(part.box, part.strides, first, share->range))
                pieces_.push_back({.tensor = part.tensor,
                                   .box = cut.box,
                                   .strides = row_major(sizes(cut.box)),
                                   .rank = ranks[static_cast<std::size_t>(share->owner)]});
        }
    }

    const Content& content_;
    const Config& args_;
    std::set<std::pair<bool, Owner>> done_;
    std::vector<Piece> pieces_;
};

}  // namespace

std::vector<Piece> buffer_shares(const Content& content, const Config& args) {
    return BufferSplit{content, args}.run();
}

}  // namespace tpx::formats
