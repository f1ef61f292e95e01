// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/moves.hpp"
#include "lib/core/catalogue.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/options.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tpx {

/// Where two states of a tensor first differ, in row-major order, and the element there as text.
struct Difference {
    Tuple<Index> index;
    std::string first;
    std::string second;
};

/// A side and the files its pieces lie in.
struct Stored {
    Side side;
    std::span<const SourceFile> files;
};

/// Compares tensor `tensor` of `first` and of `second`, which index the same tensors, by bytes; floating-point ones are
/// cast to `cast` before, if it is given. Elements that no piece holds are zero; of several copies one counts. Throws
/// an mpi::AgreedError when dtypes differ after the cast. Collective; all ranks get the result.
std::optional<Difference> first_difference(const mpi::Comm& comm, std::uint32_t tensor, const Stored& first,
                                           const Stored& second, const ExecOptions& options,
                                           std::optional<DType> cast = {});

/// An element as text: a number, true or false, or its bytes in hexadecimal.
std::string element_text(DType dtype, const std::byte* element);

}  // namespace tpx
