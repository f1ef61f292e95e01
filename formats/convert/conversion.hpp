// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/dropped_copies.hpp"
#include "formats/source.hpp"
#include "lib/change/moves.hpp"
#include "lib/layout/express.hpp"
#include "lib/layout/parts.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tpx::formats {

/// A canonical tensor inside a stored one, and its number among the canonical tensors.
struct NumberedPart {
    Part part;
    std::uint32_t number = 0;
};

/// A new checkpoint, fully planned: what is written where, and which canonical tensor each byte belongs to.
struct Conversion {
    ExpressedState expressed;                             ///< the tensors that will be stored
    Content content;                                      ///< their pieces by rank
    Draft draft;                                          ///< the files
    std::vector<Tensor> source_tensors;                   ///< canonical tensors in the source's dtypes
    std::vector<Tensor> target_tensors;                   ///< the same in the target's dtypes
    std::vector<std::vector<NumberedPart>> source_parts;  ///< one list for each stored tensor
    std::vector<std::vector<NumberedPart>> target_parts;
    std::vector<Piece> source_pieces;
    std::vector<Piece> target_pieces;
    std::vector<std::string> notes;           ///< for the user: names kept, tensors and objects dropped
    std::vector<DroppedCopy> dropped_copies;  ///< stored tensors whose values must be compared before bytes move
    std::shared_ptr<const Dialect> dialect;   ///< the dialect of the new names; null if names are kept

    Side source_side() const { return {source_tensors, source_pieces}; }
    Side target_side() const { return {target_tensors, target_pieces}; }
};

/// Plans the conversion of `source` and locates its payloads. Throws Error (exit 2) if the target layout is invalid,
/// Error (exit 1) if the target cannot store the source's weights.
Conversion convert(Source& source, const Target& target);

}  // namespace tpx::formats
