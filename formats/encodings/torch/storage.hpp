// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"
#include "lib/core/dtype.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tpx::torch {

/// What the persistent id of a storage says.
struct StorageId {
    DType dtype = DType::u8;  ///< u8 for untyped storages
    std::string_view key;
    std::string_view location;  ///< "cpu", "cuda:3", "meta"
    std::uint64_t bytes = 0;
};

/// Throws Error when `persistent` is no storage as torch.save names it, or one that is a part of another.
StorageId storage_id(Value persistent);

/// The class in module torch of storages of `dtype`; empty for types that have none of their own.
std::string_view typed_storage(DType dtype);

/// Every storage that a tree refers to, each node once.
std::vector<StorageId> storages_of(Value root);

/// The same but for those on the meta device, which have no elements: each once, in the order of the tree.
std::vector<StorageId> distinct_storages(Value root);

}  // namespace tpx::torch
