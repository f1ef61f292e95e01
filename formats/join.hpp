// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/conversion.hpp"

#include <span>
#include <vector>

namespace tpx::formats {

/// Joins tensors that keep their names: each is canonical itself; where padding differs, what both sides have of it.
void join_by_name(const Source& source, Conversion& out);

/// Joins tensors of different dialects part by part.
void join_by_parts(const Source& source, Conversion& out);

/// The pieces of stored tensors as pieces of the canonical tensors that `parts` (one list a tensor) finds in them.
/// Throws Error "tensor 'NAME': ..." for a cut through a tensor whose elements are smaller than a byte.
std::vector<Piece> canonical_pieces(std::span<const Tensor> tensors, std::span<const Piece> pieces,
                                    std::span<const std::vector<NumberedPart>> parts);

/// Finds the payloads of all pieces.
void locate_all(Checkpoint& checkpoint);

}  // namespace tpx::formats
