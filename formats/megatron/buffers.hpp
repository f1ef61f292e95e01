// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/interval.hpp"
#include "lib/layout/config.hpp"
#include "lib/layout/layout.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tpx::formats::megatron {

/// A parameter of a buffer of Megatron's distributed optimizer.
struct BufferParameter {
    Index elements = 0;
    bool has_own_bucket = false;  ///< gets a bucket of its own: the embedding that two stages share
};

/// Where the parameters of a buffer are in the vectors of distrib_optim.pt. These lack the padding at the ends of
/// buckets, so they do not depend on the number of data-parallel ranks.
struct BufferLayout {
    std::vector<Index> begin;    ///< of each parameter, in the given order
    Index size = 0;              ///< of a whole vector
    std::vector<Index> buckets;  ///< elements of each bucket without the padding at its end; their sum is `size`
};

/// Lays out parameters given in module order, as Megatron-core does since February 2024: the last one first, each at a
/// multiple of 64 elements of its bucket; a bucket ends when it has `bucket_size` elements or more (unset: never),
/// and the next one begins at a multiple of 128 of the padded buffer.
BufferLayout lay_out_buffer(std::span<const BufferParameter> parameters, std::optional<Index> bucket_size, int ranks);

/// Bucket sizes are rounded up to a multiple of this many elements if `ranks` ranks share a buffer.
Index padding_multiple(int ranks);

/// The bucket size, in elements, of model chunk `chunk` of stage `stage`; unset if buckets are unlimited.
std::optional<Index> bucket_size(const Config& args, const Layout& layout, int stage, int chunk);

/// Whether parameter `name` of a rank file is shared with another stage.
bool is_shared_embedding(const Config& args, const Layout& layout, std::string_view name);

}  // namespace tpx::formats::megatron
