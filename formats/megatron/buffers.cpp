// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/buffers.hpp"

#include "formats/settings/pipeline_stages.hpp"
#include "lib/layout/dims.hpp"

#include <algorithm>
#include <numeric>

namespace tpx::formats::megatron {
namespace {

constexpr Index parameter_alignment = 64;
constexpr Index bucket_alignment = 128;

Index round_up(Index value, Index multiple) { return (value + multiple - 1) / multiple * multiple; }

/// Walks over a buffer as Megatron does, in positions of the padded buffer, and counts elements without the padding.
class Walk {
public:
    Walk(std::optional<Index> limit, int ranks) : limit_{limit}, multiple_{padding_multiple(ranks)} {}

    Index place(const BufferParameter& parameter) {
        at_ = round_up(at_, parameter_alignment);
        if (parameter.has_own_bucket) close();
        const Index begin = compact_ + at_ - start_;
        at_ += parameter.elements;
        filled_ = true;
        if (parameter.has_own_bucket || (limit_ && at_ - start_ >= *limit_)) close();
        return begin;
    }

    void close() {
        if (!filled_) return;
        compact_ += at_ - start_;
        buckets_.push_back(at_ - start_);
        at_ = start_ = start_ + round_up(at_ - start_, multiple_);
        filled_ = false;
    }

    Index size() const { return compact_; }
    const std::vector<Index>& buckets() const { return buckets_; }

private:
    std::optional<Index> limit_;
    Index multiple_;
    Index at_ = 0;
    Index start_ = 0;    // of the open bucket
    Index compact_ = 0;  // elements of the closed buckets
    bool filled_ = false;
    std::vector<Index> buckets_;
};

}  // namespace

Index padding_multiple(int ranks) { return std::lcm<Index>(ranks, bucket_alignment); }

BufferLayout lay_out_buffer(std::span<const BufferParameter> parameters, std::optional<Index> bucket_size, int ranks) {
    BufferLayout layout{.begin = std::vector<Index>(parameters.size())};
    Walk walk{bucket_size, ranks};
    for (std::size_t k = parameters.size(); k-- > 0;) layout.begin[k] = walk.place(parameters[k]);
    walk.close();
    layout.size = walk.size();
    layout.buckets = walk.buckets();
    return layout;
}

std::optional<Index> bucket_size(const Config& args, const Layout& layout, int stage, int chunk) {
    constexpr Index least = 40'000'000;
    constexpr Index for_each_rank = 1'000'000;
    if (!holds(args, "overlap_grad_reduce") || holds(args, "overlap_param_gather_with_optimizer_step") || stage > 0 ||
        chunk > 0)
        return std::nullopt;
    if (const auto given = integer(args, "ddp_bucket_size"); given && *given > 0) return given;
    return std::max(least, for_each_rank * integer(args, "data_parallel_size").value_or(layout.dp));
}

bool is_shared_embedding(const Config& args, const Layout& layout, std::string_view name) {
    if (layout.pp == 1) return false;
    const bool mtp = integer(args, "mtp_num_layers").value_or(0) > 0;
    const bool tied = !holds(args, "untie_embeddings_and_output_weights");
    if (name == "embedding.word_embeddings.weight") return tied || mtp;
    // The chunk with multi-token prediction shares its copy of the embedding instead.
    const bool last_predicts = mtp && chunk_of_prediction(args, layout) == layout.pp * layout.vpp - 1;
    return name == "output_layer.weight" && tied && !last_predicts;
}

}  // namespace tpx::formats::megatron
