// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive_writer.hpp"
#include "formats/encodings/torch/value.hpp"

#include <memory>

namespace tpx::formats {

/// The root of `document`. The pointer keeps the document alive.
std::shared_ptr<const torch::Value> keep_alive(torch::Document document);

/// A copy of `value`, kept alive by the pointer. Tensors in it refer to storages that the copy does not contain.
std::shared_ptr<const torch::Value> keep_copy_alive(torch::Value value);

/// Same, including the tensors of `value`: adds their elements, which are in `archive`, to `storages` under new keys.
/// Omits all elements if a tensor cannot be copied, or if they exceed 64 MiB; Megatron's common state is smaller.
std::shared_ptr<const torch::Value> keep_copy_alive(const torch::Archive& archive, torch::Value value,
                                                    torch::Contents& storages);

}  // namespace tpx::formats
