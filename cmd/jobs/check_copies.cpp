// SPDX-License-Identifier: Apache-2.0
#include "cmd/jobs/check_copies.hpp"

#include "formats/convert/canonical_pieces.hpp"
#include "lib/core/error.hpp"
#include "lib/exec/difference.hpp"

#include <array>
#include <optional>
#include <vector>

namespace tpx::cli {
namespace {

/// One tensor of a catalogue, or a part of a tensor, as a side of a comparison.
struct Single {
    Single(const Catalogue& catalogue, std::uint32_t tensor, const std::optional<Part>& part)
        : tensors{catalogue.tensors[tensor]} {
        std::vector<formats::NumberedPart> parts;
        if (part) parts.push_back({*part, 0});
        formats::PieceCutter cutter;
        for (Piece piece : catalogue.pieces) {
            if (piece.tensor != tensor) continue;
            if (part) {
                cutter.cut(catalogue.tensors[tensor], piece, parts, pieces);
                continue;
            }
            piece.tensor = 0;
            pieces.push_back(piece);
        }
        if (part) tensors[0] = {part->name, tensors[0].dtype, part->shape};
    }
    Side side() const { return {tensors, pieces}; }

    std::array<Tensor, 1> tensors;
    std::vector<Piece> pieces;
};

void check_copy(const mpi::Comm& comm, const formats::DroppedCopy& copy, const Catalogue& source,
                const ExecOptions& exec) {
    Single kept{source, copy.kept, copy.kept_part};
    const Single dropped{source, copy.dropped, copy.dropped_part};
    if (copy.is_zero) kept.pieces.clear();  // elements without a piece are zero
    const Tensor &one = kept.tensors[0], &other = dropped.tensors[0];
    const auto refuse = [&](const std::string& how) {
        if (copy.is_zero) throw mpi::AgreedError{failure("tensor '{}': {}; {}", other.name, how, copy.remedy)};
        throw mpi::AgreedError{
            failure("tensor '{}': should be a copy of '{}', but {}; {}", other.name, one.name, how, copy.remedy)};
    };
    if (one.shape != other.shape)
        refuse(fmt::format("has shape {} instead of {}", to_string(other.shape), to_string(one.shape)));
    const auto files = formats::paths(source);
    std::optional<DType> cast;
    if (one.dtype != other.dtype) {
        if (!is_real(one.dtype) || !is_real(other.dtype))
            refuse(fmt::format("has dtype {} instead of {}", name(other.dtype), name(one.dtype)));
        cast = DType::f64;
    }
    const auto difference = first_difference(comm, 0, {kept.side(), files}, {dropped.side(), files}, exec, cast);
    if (difference)
        refuse(fmt::format("has {} instead of {} at {}", difference->second, difference->first,
                           to_string(difference->index)));
}

}  // namespace

void check_copies(const mpi::Comm& comm, const formats::Conversion& conversion, const Catalogue& source,
                  const ExecOptions& exec) {
    for (const formats::DroppedCopy& copy : conversion.dropped_copies) check_copy(comm, copy, source, exec);
}

}  // namespace tpx::cli
