// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/hdf5/opened_file.hpp"

/// Plain HDF5 checkpoints: groups are modules and datasets are tensors. tpx's own files have the attributes below on
/// the root and on datasets; tpx-hdf5(5) describes them.
namespace tpx::formats::hdf5 {

inline constexpr const char* schema_key = "tpx_format";
inline constexpr const char* schema = "tpx.hdf5/1";
inline constexpr const char* rank_key = "rank";
inline constexpr const char* ranks_key = "ranks";
inline constexpr const char* dtype_key = "dtype";
inline constexpr const char* shape_key = "shape";
inline constexpr const char* offset_key = "offset";
inline constexpr const char* name_key = "name";
inline constexpr const char* role_key = "role";

/// The tensors of plain files, named by their paths with dots, and of tpx's own files, whose attributes may have names,
/// roles and boxes. Throws Error if files of ranks are missing.
std::vector<NamedDataset> own_datasets(std::span<const OpenedFile> files, const Checkpoint& checkpoint);

}  // namespace tpx::formats::hdf5
