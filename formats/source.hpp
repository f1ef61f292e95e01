// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "lib/change/moves.hpp"
#include "lib/layout/config.hpp"
#include "lib/layout/detect.hpp"
#include "lib/layout/families.hpp"
#include "lib/layout/layout.hpp"
#include "lib/layout/reading.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// A checkpoint and what it was understood to be.
struct Source {
    Checkpoint checkpoint;
    Reading reading;
    std::optional<Layout> layout;                  ///< nothing when no layout explains its boxes
    Families families;                             ///< that it may be read as; `reading` points into them
    bool has_computed_values = false;              ///< values of some tensors are computed from what is stored
    std::vector<std::uint32_t> added_biases = {};  ///< tensors that are not stored, see add_missing_biases()
};

/// Opens and reads the checkpoint at `path`. `config` adds to, and overrides, the configuration found beside the
/// tensors, but for what is_of_writing() that it tells.
Source open_source(const std::filesystem::path& path, const Families& families, const Config& config,
                   MissingFiles missing = MissingFiles::refused);

/// Whether a setting of Megatron tells how a checkpoint is written, not what it holds: the sizes of buckets, the stages
/// in words. Where args of a checkpoint tell it, a user's own is about the new checkpoint.
bool is_of_writing(std::string_view key);

/// How a format cuts tensors over ranks.
Cutting cutting_of(Format format);

/// What is asked of a conversion.
struct Target {
    Layout layout;
    Format format = default_format;
    std::string dialect;         ///< "hf", "titan", "mcore", "keep"; empty: what the format's framework uses
    std::optional<DType> dtype;  ///< of weights; unset: as stored
    Config config;               ///< settings that neither checkpoint holds, such as make_vocab_size_divisible_by
    std::optional<std::uint64_t> shard_size;
    /// DCP and torch_dist: a rank writes a file for each set of ranks that hold the same pieces, and rank 0 one for
    /// objects, so that no rank must read a file that is mostly of others.
    bool split_by_holders = false;
    /// DCP: the ranks whose state is held in memory. Each of them has a segment with all of its boxes, replicas
    /// included, instead of a share in the files of a checkpoint.
    std::optional<std::vector<int>> held;
};

/// Takes over from `other` the sizes that `source`'s own configuration lacks, if both are of one family.
void adopt_dims(Source& source, const Source& other);

/// A checkpoint's files, in the order of its catalogue.
std::vector<SourceFile> paths(const Catalogue& catalogue);

}  // namespace tpx::formats
