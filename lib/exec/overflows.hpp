// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/moves.hpp"
#include "lib/core/catalogue.hpp"
#include "lib/exec/exec_options.hpp"
#include "lib/exec/mpi.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

namespace tpx {

/// Values that casts could not represent, because they exceed the largest value of the dtype: how many, and the first,
/// in the order of the tensors.
class Overflows {
public:
    /// Counts the overflows among the elements of `box`, a part of `piece`; the first element is at `values`.
    /// Precondition: there is at least one overflow.
    void add(const Piece& piece, const Box& box, const std::byte* values, const Strides& strides, DType from, DType to);

    void join(const Overflows& other);

    std::uint64_t count() const { return count_; }

    /// Throws an mpi::AgreedError "FILE: tensor 'NAME': ..." if any rank has overflows. Collective.
    void refuse(const mpi::Comm& comm, const Side& source, std::span<const SourceFile> files) const;

private:
    static constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();

    std::uint64_t count_ = 0;
    std::uint64_t tensor_ = none;  ///< the first tensor that has overflows
    std::uint32_t file_ = 0;
    Tuple<Index> index_;
    std::string value_;
    DType to_ = DType::f16;
};

}  // namespace tpx
