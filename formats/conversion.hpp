// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/dropped_copies.hpp"
#include "lib/change/moves.hpp"
#include "lib/layout/detect.hpp"
#include "lib/layout/express.hpp"
#include "lib/layout/families.hpp"
#include "lib/layout/layout.hpp"
#include "lib/layout/parts.hpp"

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx::formats {

/// A checkpoint and what it was understood to be.
struct Source {
    Checkpoint checkpoint;
    Reading reading;
    std::optional<Layout> layout;      ///< nothing when no layout explains its boxes
    Families families;                 ///< that it may be read as; `reading` points into them
    bool has_computed_values = false;  ///< values of some tensors are computed from what is stored
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

/// A canonical tensor inside a stored one, by its number among the canonical tensors.
struct NumberedPart {
    Part part;
    std::uint32_t number = 0;
};

/// A new checkpoint, fully planned: what is written where, and which canonical tensor each byte belongs to.
struct Conversion {
    Expressed expressed;                                  ///< the tensors that will be stored
    Content content;                                      ///< their pieces by rank
    Draft draft;                                          ///< the files
    std::vector<Tensor> source_tensors;                   ///< canonical tensors in the source's dtypes
    std::vector<Tensor> target_tensors;                   ///< the same in the target's dtypes
    std::vector<std::vector<NumberedPart>> source_parts;  ///< one list a stored tensor
    std::vector<std::vector<NumberedPart>> target_parts;
    std::vector<Piece> source_pieces;
    std::vector<Piece> target_pieces;
    std::vector<std::string> notes;           ///< what the user should know: names kept, tensors and objects left out
    std::vector<DroppedCopy> dropped_copies;  ///< stored tensors whose values must be compared before bytes move
    std::shared_ptr<const Dialect> dialect;   ///< that the names are written in; null where they are kept

    Side source_side() const { return {source_tensors, source_pieces}; }
    Side target_side() const { return {target_tensors, target_pieces}; }
};

/// Plans the conversion of `source`, whose payloads are located by this call. Throws Error (exit 2) when the target
/// layout cannot be, Error (exit 1) when the target cannot hold the source's weights.
Conversion convert(Source& source, const Target& target);

/// Takes over from `other` the sizes that `source`'s own configuration lacks, if both are of one family.
void adopt_dims(Source& source, const Source& other);

/// A checkpoint's files, in the order of its catalogue.
std::vector<SourceFile> paths(const Catalogue& catalogue);

}  // namespace tpx::formats
