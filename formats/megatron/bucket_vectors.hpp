// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "lib/core/dtype.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats::megatron {

/// A run of elements of a vector of the distributed optimizer.
struct VectorChunk {
    Interval range;  ///< of the vector
    std::uint32_t file = 0;
    std::uint64_t offset = 0;   ///< in bytes: of element range.begin, or of its archive
    std::uint64_t archive = 0;  ///< bytes of the archive whose only tensor is the chunk; 0: no archive
    std::int32_t rank = -1;
};

/// The state of one role in a buffer: its buckets, one after the other.
struct BucketVector {
    Role role = Role::master;  ///< master, exp_avg, exp_avg_sq
    DType dtype = DType::f32;
    std::vector<Index> buckets;       ///< elements of each
    std::vector<VectorChunk> chunks;  ///< in order; they do not overlap
};

/// The state that the ranks of one data-parallel group share, by buffer number.
using GroupBuffers = std::map<int, std::vector<BucketVector>>;

/// The vectors of a distributed optimizer in a torch_dist checkpoint that stores them in buckets.
struct BucketStore {
    std::map<std::string, GroupBuffers> groups;  ///< by prefix of the keys: "optimizer.distributed.dp_group_idx_0."
    std::vector<bool> taken_tensors;             ///< of the catalogue: part of a vector
    std::vector<bool> taken_objects;             ///< of the catalogue: belongs to the optimizer
};

/// Whether `checkpoint` stores optimizer state in buckets: dp_reshardable or dp_zero_gather_scatter.
bool has_buckets(const Checkpoint& checkpoint);

/// Finds the vectors. Throws Error "tensor 'NAME': ..." for malformed keys and missing buckets.
BucketStore read_buckets(const Checkpoint& checkpoint);

}  // namespace tpx::formats::megatron
