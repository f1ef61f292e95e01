// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/padding_bug_note.hpp"

#include "formats/megatron/rank_grid.hpp"
#include "formats/megatron/rank_optimizer.hpp"
#include "formats/megatron/stage_buffers.hpp"
#include "formats/settings/args_layout.hpp"
#include "formats/settings/pipeline_stages.hpp"
#include "lib/layout/reading.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tpx::formats::megatron {
namespace {

/// The number of parameters of a buffer that follow a padded bucket.
std::size_t count_after_padding(const BufferLayout& places, int ranks) {
    const Index multiple = padding_multiple(ranks);
    Index end = 0;
    for (Index size : places.buckets) {
        end += size;
        if (size % multiple != 0) break;
    }
    return static_cast<std::size_t>(std::ranges::count_if(places.begin, [&](Index begin) { return begin >= end; }));
}

}  // namespace

/// Looks at one tensor and expert rank only, because all of them have the same buffers.
std::string padding_bug_note(const Checkpoint& checkpoint, const Families& families, const Config& args) {
    const Layout layout = layout_of_args(args, {});
    const bool tied = is_shared_embedding(args, layout, "embedding.word_embeddings.weight");
    if (!bucket_size(args, layout, 0, 0) && !tied) return "";
    Content content{.layout = layout};
    for (const Tensor& tensor : checkpoint.catalogue.tensors) {
        if (!tensor.name.starts_with("optimizer.")) content.tensors.push_back(tensor);
    }
    const Reading reading = read(content.tensors, families, args);
    if (!reading.family) return "";
    set_stages(args, layers(reading, content.tensors), content.layout);
    content.reading = &reading;
    RankParts parts{content, args};
    const bool split = two_optimizers(args, layout);
    std::size_t shifted = 0;
    std::size_t all = 0;
    for (const RankDirectory& directory : rank_directories(content.layout)) {
        if (directory.tp > 0 || directory.ep > 0) continue;
        const std::vector<RankParameter> parameters = parts.of(directory);
        for (const bool experts : {false, true}) {
            if (experts && !split) break;
            for (const Buffer& buffer : buffers_of(parameters, split, experts)) {
                shifted += count_after_padding(places_of(buffer, args, content.layout, directory.pp, experts),
                                               sharing_ranks(layout, experts));
                all += buffer.size();
            }
        }
    }
    if (shifted == 0) return "";
    return fmt::format(
        "according to args, {} of {} parameters of a rank's optimizer follow a padded bucket; Megatron-core 0.15 and "
        "0.16 write the state of such parameters incorrectly as fully_reshardable; use tpx verify --masters to check "
        "it",
        shifted, all);
}

}  // namespace tpx::formats::megatron
