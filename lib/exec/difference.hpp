// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/moves.hpp"
#include "lib/core/catalogue.hpp"
#include "lib/exec/exec_options.hpp"
#include "lib/exec/mpi.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tpx {

/// Where two states of a tensor first differ, in row-major order, and the element there as text.
struct ElementDifference {
    Tuple<Index> index;
    std::string first;
    std::string second;
};

/// A side and the files that contain its pieces.
struct StoredSide {
    Side side;
    std::span<const SourceFile> files;
};

/// Compares tensor number `tensor` of `first` and `second` by bytes; tensors have the same numbers in both.
/// Floating-point tensors are first cast to `cast`, if it is given. Elements that no piece holds are zero; of several
/// copies, one counts. Throws an mpi::AgreedError if dtypes differ after the cast. Collective; all ranks get the
/// result.
std::optional<ElementDifference> first_difference(const mpi::Comm& comm, std::uint32_t tensor, const StoredSide& first,
                                                  const StoredSide& second, const ExecOptions& options,
                                                  std::optional<DType> cast = {});

/// An element as text: a number, true or false, or its bytes in hexadecimal.
std::string element_text(DType dtype, const std::byte* element);

}  // namespace tpx
