// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/hdf5/survey.hpp"
#include "lib/core/catalogue.hpp"

namespace tpx::formats::hdf5 {

/// The dtype of a dataset's elements: what its attribute `dtype` names, where HDF5's own type leaves that open.
/// Throws Error for what tpx refuses.
DType dtype_of(const DatasetFacts& facts);

/// The dataset's shape. Throws Error when it has more elements than can be counted.
Shape shape_of(const DatasetFacts& facts);

/// Adds pieces for the whole dataset, which is `box` of `tensor`, and files that stand for what chunks decode to.
/// `file` of the catalogue is the HDF5 file. Throws Error when chunks are not all in the file, overlap, or promise
/// more than they can hold.
void add_pieces(const DatasetFacts& facts, std::uint32_t tensor, const Box& box, std::int32_t rank, std::uint32_t file,
                Catalogue& catalogue);

}  // namespace tpx::formats::hdf5
