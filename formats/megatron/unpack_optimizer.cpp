// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/unpack_optimizer.hpp"

#include "formats/encodings/torch/value.hpp"
#include "formats/megatron/bucket_common.hpp"
#include "formats/megatron/bucket_vectors.hpp"
#include "formats/megatron/buffers.hpp"
#include "formats/megatron/flat_cells.hpp"
#include "formats/megatron/flat_cut.hpp"
#include "formats/megatron/padding_bug_note.hpp"
#include "formats/megatron/rank_grid.hpp"
#include "formats/megatron/rank_optimizer.hpp"
#include "formats/megatron/rank_parts.hpp"
#include "formats/megatron/stage_buffers.hpp"
#include "formats/settings/args_layout.hpp"
#include "formats/settings/pipeline_stages.hpp"
#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/dims.hpp"
#include "lib/layout/reading.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace tpx::formats {
namespace {

using namespace megatron;

/// A piece, the length of its archive, and the part of the archive's tensor that it is.
struct StoredPiece {
    Piece piece;
    std::uint64_t archive = 0;
    ArchiveSlice inside;
};

std::string state_name(Role role, const std::string& weight) {
    return fmt::format("optimizer.state.{}.{}", role == Role::master ? std::string_view{"param"} : name(role), weight);
}

/// Builds the new catalogue, and the lists of the checkpoint that are parallel to its pieces.
class Unpacked {
public:
    explicit Unpacked(const Checkpoint& checkpoint) : checkpoint_{checkpoint} {}

    std::uint32_t tensor(const std::string& name, DType dtype, const Shape& shape) {
        const auto [found, added] = numbers_.emplace(name, static_cast<std::uint32_t>(tensors_.size()));
        if (added) tensors_.push_back({name, dtype, shape});
        if (tensors_[found->second].dtype != dtype)
            throw failure("tensor '{}': is {} and {}", name, tpx::name(tensors_[found->second].dtype),
                          tpx::name(dtype));
        return found->second;
    }
    void add(StoredPiece piece) { pieces_.push_back(std::move(piece)); }

    /// Adds the tensors of the checkpoint that are not `taken`, unchanged.
    void keep(const std::vector<bool>& taken) {
        const Catalogue& catalogue = checkpoint_.catalogue;
        std::vector<std::uint32_t> numbers(catalogue.tensors.size());
        for (std::size_t t = 0; t < numbers.size(); ++t) {
            const Tensor& own = catalogue.tensors[t];
            if (!taken[t]) numbers[t] = tensor(own.name, own.dtype, own.shape);
        }
        for (std::size_t p = 0; p < catalogue.pieces.size(); ++p) {
            if (taken[catalogue.pieces[p].tensor]) continue;
            StoredPiece stored{catalogue.pieces[p], checkpoint_.archives[p], {}};
            stored.piece.tensor = numbers[stored.piece.tensor];
            pieces_.push_back(std::move(stored));
        }
    }

    /// Stores everything in `checkpoint`, sorted. Throws Error for pieces that overlap.
    void store(Checkpoint& checkpoint) {
        std::ranges::sort(pieces_, [](const StoredPiece& a, const StoredPiece& b) {
            return std::tie(a.piece.tensor, a.piece.box, a.piece.rank) <
                   std::tie(b.piece.tensor, b.piece.box, b.piece.rank);
        });
        Catalogue catalogue{.tensors = std::move(tensors_)};
        std::vector<std::uint64_t> archives;
        std::vector<ArchiveSlice> archive_slices;
        for (const StoredPiece& stored : pieces_) {
            catalogue.pieces.push_back(stored.piece);
            archives.push_back(stored.archive);
            archive_slices.push_back(stored.inside);
        }
        find_holes(catalogue);
        checkpoint.catalogue.tensors = std::move(catalogue.tensors);
        checkpoint.catalogue.pieces = std::move(catalogue.pieces);
        checkpoint.archives = std::move(archives);
        checkpoint.archive_slices = std::move(archive_slices);
    }

private:
    const Checkpoint& checkpoint_;
    std::map<std::string, std::uint32_t> numbers_;
    std::vector<Tensor> tensors_;
    std::vector<StoredPiece> pieces_;
};

class Unpacker {
public:
    Unpacker(Checkpoint& checkpoint, const Config& args) : checkpoint_{checkpoint}, args_{args}, made_{checkpoint} {}

    void run(const Families& families) {
        store_ = read_buckets(checkpoint_);
        std::vector<bool> taken = store_.taken_tensors;
        made_.keep(taken);
        for (std::size_t t = 0; t < taken.size(); ++t) {
            if (!taken[t]) content_.tensors.push_back(checkpoint_.catalogue.tensors[t]);
        }
        const Reading reading = read(content_.tensors, families, args_);
        if (!reading.family) throw failure("{}", reading.why_not);
        content_.layout = layout_of_args(args_, {});
        set_stages(args_, layers(reading, content_.tensors), content_.layout);
        content_.reading = &reading;
        RankParts parts{content_, args_};
        for (const RankDirectory& directory : model_parts(content_.layout)) add(directory, parts.of(directory));
        for (const auto& [group, vectors] : store_.groups) {
            if (!used_.contains(group))
                throw failure("'{}...': layout {} has no such group", group, to_string(content_.layout));
        }
        auto common = common_with_groups(checkpoint_, store_.taken_objects);
        made_.store(checkpoint_);
        checkpoint_.common = std::move(common);
        checkpoint_.layout = content_.layout;
        std::size_t at = 0;
        std::erase_if(checkpoint_.catalogue.objects, [&](const Object&) { return store_.taken_objects[at++]; });
    }

private:
    void add(const RankDirectory& directory, const std::vector<RankParameter>& parameters) {
        const Layout& layout = content_.layout;
        const bool split = two_optimizers(args_, layout);
        const int etp = layout.etp > 0 ? layout.etp : layout.tp;
        const int dense = directory.tp + layout.tp * directory.pp;
        const int expert = directory.etp + etp * (directory.ep + layout.ep * directory.pp);
        for (const bool experts : {false, true}) {
            if (experts && !split) break;
            const std::string group =
                fmt::format("{}optimizer.distributed.dp_group_idx_{}.",
                            split ? experts ? "chained_1." : "chained_0." : "", experts ? expert : dense);
            if (!used_.insert(group).second) continue;
            in_context([&] { return fmt::format("'{}...'", group); },
                       [&] { add_group(directory, buffers_of(parameters, split, experts), group, experts); });
        }
    }

    void add_group(const RankDirectory& directory, const std::vector<Buffer>& buffers, const std::string& group,
                   bool experts) {
        const auto found = store_.groups.find(group);
        if (found == store_.groups.end()) {
            if (buffers.empty()) return;
            throw failure("found no state, but layout {} has {} parameters", to_string(content_.layout),
                          buffers[0].size());
        }
        if (found->second.size() != buffers.size())
            throw failure("found {} buffers, but the model has {}", found->second.size(), buffers.size());
        for (std::size_t b = 0; b < buffers.size(); ++b) {
            const BufferLayout places = places_of(buffers[b], args_, content_.layout, directory.pp, experts);
            const auto vectors = found->second.find(static_cast<int>(b));
            if (vectors == found->second.end()) throw failure("no buffer {}", b);
            for (const BucketVector& vector : vectors->second) add_vector(vector, buffers[b], places);
        }
    }

    void add_vector(const BucketVector& vector, const Buffer& buffer, const BufferLayout& places) {
        // dp_zero_gather_scatter stores one vector instead of buckets.
        const std::vector<Index> joined{places.size};
        if (vector.buckets != places.buckets && vector.buckets != joined)
            throw failure("{} has buckets of {} elements, but these parameters need {}", vector.role,
                          fmt::join(vector.buckets, ", "), fmt::join(places.buckets, ", "));
        for (std::size_t k = 0; k < buffer.size(); ++k) {
            for (const RankPart& part : buffer[k]->parts.at(Role::weight)) add_part(vector, part, places.begin[k]);
        }
    }

    void add_part(const BucketVector& vector, const RankPart& part, Index begin) {
        const Tensor& weight = content_.tensors[part.tensor];
        const std::string name = state_name(vector.role, weight.name);
        const std::uint32_t tensor = made_.tensor(name, vector.dtype, weight.shape);
        // Other ranks of the group may hold copies that are split differently: one copy is enough.
        if (!placed_.insert({tensor, part.box}).second) return;
        const Index first = begin + part.begin;
        const Index end = flat_range(part.box, part.strides, first).end;
        auto chunk =
            std::ranges::upper_bound(vector.chunks, first, {}, [](const VectorChunk& c) { return c.range.end; });
        for (; chunk != vector.chunks.end() && chunk->range.begin < end; ++chunk) {
            for (const FlatBox& cut : cut_flat(part.box, part.strides, first, chunk->range))
                made_.add(stored(tensor, vector.dtype, part, cut, *chunk));
        }
    }

    static StoredPiece stored(std::uint32_t tensor, DType dtype, const RankPart& part, const FlatBox& cut,
                              const VectorChunk& chunk) {
        StoredPiece stored{.piece = {.tensor = tensor,
                                     .file = chunk.file,
                                     .offset = chunk.offset,
                                     .box = cut.box,
                                     .strides = part.strides,
                                     .rank = chunk.rank},
                           .archive = chunk.archive,
                           .inside = {}};
        const Index skipped = cut.begin - chunk.range.begin;
        if (chunk.archive > 0)
            stored.inside = {chunk.range.size(), skipped};
        else
            stored.piece.offset += static_cast<std::uint64_t>(skipped * itemsize(dtype));
        return stored;
    }

    Checkpoint& checkpoint_;
    const Config& args_;
    Unpacked made_;
    BucketStore store_;
    Content content_;
    std::set<std::string> used_;
    std::set<std::pair<std::uint32_t, Box>> placed_;
};

bool is_fully_reshardable(const Checkpoint& checkpoint) {
    const auto metadata = checkpoint.common ? checkpoint.common->find("content_metadata") : std::nullopt;
    const auto type =
        metadata && metadata->is(torch::Kind::dict) ? metadata->find("distrib_optim_sharding_type") : std::nullopt;
    return type && type->is(torch::Kind::string) && type->as_string() == "fully_reshardable";
}

}  // namespace

void unpack_optimizer(Checkpoint& checkpoint, const Families& families, const Config& config) {
    drop_chain_prefixes(checkpoint);
    unpack_cells(checkpoint);
    if (!has_buckets(checkpoint)) {
        if (!is_fully_reshardable(checkpoint)) return;
        try {
            if (const std::string note = padding_bug_note(checkpoint, families, config); !note.empty())
                checkpoint.warnings.push_back(note);
        } catch (const Error&) {  // args that describe no layout describe no buckets either
        }
        return;
    }
    try {
        Unpacker{checkpoint, config}.run(families);
    } catch (const Error& error) {
        checkpoint.notes.push_back(fmt::format(
            "optimizer state stays in its buckets, which fit only tp and pp of this checkpoint: {}", error.what()));
    }
}

void rename_masters(Checkpoint& checkpoint, bool distributed) {
    constexpr std::string_view plain = "optimizer.state.fp32_param.";
    constexpr std::string_view sharded = "optimizer.state.param.";
    const std::string_view from = distributed ? plain : sharded;
    for (Tensor& tensor : checkpoint.catalogue.tensors) {
        if (tensor.name.starts_with(from))
            tensor.name = fmt::format("{}{}", distributed ? sharded : plain, tensor.name.substr(from.size()));
    }
}

}  // namespace tpx::formats
