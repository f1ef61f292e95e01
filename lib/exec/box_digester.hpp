// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/digest.hpp"
#include "lib/core/dtype.hpp"
#include "lib/exec/image.hpp"

#include <cstddef>
#include <vector>

namespace tpx {

/// Adds the elements of a box, which are in an image in memory and may have to be cast, to the digest of a tensor.
/// Elements that must be cast, or that are not neighbors in memory, are copied first, to a small buffer. For one
/// thread.
class BoxDigester {
public:
    /// Adds the elements of `box`, which is part of `image` at `at`, to the digest of a tensor of shape `whole`; they
    /// have type `stored` and are cast to `dtype`.
    void add(Digest& sum, const Shape& whole, const Box& box, const Image& image, const std::byte* at, DType stored,
             DType dtype);

private:
    template <class MakeCopy>
    void add_copies(Digest& sum, const Shape& whole, int item, const Box& box, const MakeCopy& make);

    std::vector<std::byte> copy_;
};

}  // namespace tpx
