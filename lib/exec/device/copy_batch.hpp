// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/box.hpp"
#include "lib/core/dtype.hpp"
#include "lib/exec/device/strided_copy.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tpx {

/// Strided copies that one launch of a kernel makes.
struct CopyList {
    std::vector<StridedCopy> copies;
    std::uint32_t tiles = 0;
};

/// Strided copies between places that do not overlap, in memory of the host or of GPUs. The smallest number of wide
/// items is chosen from alignment and strides.
class CopyBatch {
public:
    /// A cast that makes a finite value infinite sets `*overflow`, in memory that the copies' device reaches; null:
    /// none does.
    explicit CopyBatch(std::uint32_t* overflow = nullptr) : overflow_{overflow} {}

    /// Whether add() takes `from` and `to`: equal types of 1, 2, 4, 8 or 16 bytes, or both of f32, bf16, f16,
    /// f8_e4m3 and f8_e5m2.
    static bool supports(DType from, DType to);

    /// Adds the copy of an array of `sizes`; strides are in bytes, and none is negative. Precondition: supports(from,
    /// to). Source and target are aligned to their elements.
    void add(const Shape& sizes, const std::byte* source, const Strides& source_strides, DType from, std::byte* target,
             const Strides& target_strides, DType to);

    const CopyList& plain() const { return plain_; }  ///< that keep the type
    const CopyList& casts() const { return casts_; }  ///< that change it
    std::uint64_t bytes() const { return bytes_; }    ///< that are written
    std::size_t copies() const { return plain_.copies.size() + casts_.copies.size(); }

private:
    CopyList plain_;
    CopyList casts_;
    std::uint64_t bytes_ = 0;
    std::uint32_t* overflow_;
};

/// Makes the copies of a batch in memory of the host.
void run_on_host(const CopyBatch& batch);

}  // namespace tpx
