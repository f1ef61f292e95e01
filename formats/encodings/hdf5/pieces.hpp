// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/hdf5/survey.hpp"
#include "lib/core/catalogue.hpp"

namespace tpx::formats::hdf5 {

/// The dtype of a dataset's elements. If HDF5's own type is ambiguous, the attribute `dtype` decides. Throws Error if
/// tpx cannot read the dataset.
DType dtype_of(const DatasetFacts& facts);

/// The dataset's shape. Throws Error if it has too many axes or elements.
Shape shape_of(const DatasetFacts& facts);

/// Adds pieces for the whole dataset, which is `box` of `tensor`, and virtual files for the decoded chunks. `file` is
/// the HDF5 file's number in the catalogue. Throws Error if chunks are outside the file, are stored twice, or have a
/// size that does not fit their elements.
void add_pieces(const DatasetFacts& facts, std::uint32_t tensor, const Box& box, std::int32_t rank, std::uint32_t file,
                Catalogue& catalogue);

}  // namespace tpx::formats::hdf5
