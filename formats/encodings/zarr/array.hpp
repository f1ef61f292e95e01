// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/box.hpp"
#include "lib/core/dtype.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace tpx::formats::zarr {

/// The content of `.zarray` for a zarr version 2 array whose chunks are stored as Megatron-core stored them: raw,
/// little-endian and in C order. Chunk (i, j, ...) starts at element (i * chunk[0], j * chunk[1], ...). Every chunk
/// file has the full size of a chunk, even if the chunk extends beyond the array.
struct ZarrArray {
    DType dtype = DType::f32;
    Shape shape;
    Shape chunk;           ///< the shape of one chunk
    char separator = '.';  ///< between the indices in the name of a chunk file
    std::string fill;      ///< fill_value as JSON; empty: null, as Megatron-core wrote it
};

/// Parses the text of a `.zarray` file. Throws Error for unsupported arrays: other versions, compressed or filtered
/// chunks, big-endian values, Fortran order, an unknown dtype, or an invalid or too large shape.
ZarrArray parse_zarr_array(std::string_view text);

/// The text of the `.zarray` file of `array`, byte for byte as zarr 2.18 writes it for Megatron-core. Throws Error for
/// a dtype that Megatron-core does not store in this backend.
std::string write_zarr_array(const ZarrArray& array);

/// The size of a chunk file in bytes.
std::uint64_t chunk_bytes(const ZarrArray& array);

/// How many chunks the array has on each axis.
Shape chunk_grid(const ZarrArray& array);

/// The indices in `name`, the path of a chunk file relative to the array's folder. Returns nothing if `name` is not the
/// name of a chunk of an array with as many axes.
std::optional<Shape> chunk_index(std::string_view name, const ZarrArray& array);

/// The name of the chunk file at `index`: "1.0.2", and "0" without axes.
std::string chunk_name(const Shape& index);

/// The elements of the chunk at `index` that belong to the array. Precondition: `index` is inside chunk_grid().
Box chunk_box(const Shape& index, const ZarrArray& array);

}  // namespace tpx::formats::zarr
