// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "lib/change/moves.hpp"
#include "lib/layout/config.hpp"
#include "lib/layout/detect_layout.hpp"
#include "lib/layout/families.hpp"
#include "lib/layout/layout.hpp"
#include "lib/layout/reading.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// A checkpoint and how it was interpreted.
struct Source {
    Checkpoint checkpoint;
    Reading reading;
    std::optional<Layout> layout;                  ///< unset if no layout explains its boxes
    Families families;                             ///< known families; `reading` points into them
    bool has_computed_values = false;              ///< values of some tensors are computed from what is stored
    std::vector<std::uint32_t> added_biases = {};  ///< tensors that are not stored; see add_missing_biases()
};

/// True for Megatron settings that describe how a checkpoint is written, not its contents: bucket sizes, pipeline
/// layout. If a checkpoint's args record such a setting, the user's value applies to the new checkpoint only.
bool is_writing_setting(std::string_view key);

/// How a format splits tensors across ranks.
Cutting cutting_of(Format format);

/// The requested result of a conversion.
struct Target {
    Layout layout;
    Format format = default_format;
    std::string dialect;         ///< "hf", "titan", "mcore", "keep"; empty: that of the format's framework
    std::optional<DType> dtype;  ///< of weights; unset: as stored
    bool unscaled = false;       ///< with `dtype`: weights in FP8, of the source or the target, have no scales
    Config config;               ///< settings that no checkpoint records, such as make_vocab_size_divisible_by
    std::optional<std::uint64_t> shard_size;
    /// DCP and torch_dist: a rank writes one file for each set of ranks that hold the same pieces, and rank 0 also one
    /// for objects, so that no rank has to read files that mostly concern other ranks.
    bool split_by_holders = false;
    /// DCP: the ranks whose state is held in memory. Each has one segment with all of its boxes, including replicas,
    /// instead of a share of a checkpoint's files.
    std::optional<std::vector<int>> held;
};

/// The role of a tensor, as the checkpoint records it or else as the rules of its family give it.
Role role_of(const Source& source, std::size_t tensor);

/// Copies from `other` the sizes that the configuration of `source` lacks, if both are of the same family.
void adopt_dims(Source& source, const Source& other);

/// A checkpoint's files, in the order of its catalogue.
std::vector<SourceFile> paths(const Catalogue& catalogue);

}  // namespace tpx::formats
