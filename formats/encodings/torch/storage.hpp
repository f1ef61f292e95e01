// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"
#include "lib/core/dtype.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tpx::torch {

/// The content of the persistent id of a storage.
struct StorageId {
    DType dtype = DType::u8;  ///< u8 for untyped storages
    std::string_view key;
    std::string_view location;  ///< "cpu", "cuda:3", "meta"
    std::uint64_t bytes = 0;
};

/// Reads a persistent id. Throws Error if it is not a storage id of torch.save, or if the storage is a view of another.
StorageId storage_id(Value persistent);

/// The name of torch's storage class for `dtype`; empty if there is none.
std::string_view typed_storage(DType dtype);

/// The storage of every storage node in a tree, each node once.
std::vector<StorageId> storages_of(Value root);

/// Each storage of a tree once, in the order of the tree. Omits storages on the meta device, which have no elements.
std::vector<StorageId> distinct_storages(Value root);

}  // namespace tpx::torch
