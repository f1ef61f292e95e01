// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive_writer.hpp"
#include "formats/encodings/torch/value.hpp"

#include <memory>

namespace tpx::formats {

/// The root of `document`, which lives as long as the pointer.
std::shared_ptr<const torch::Value> kept(torch::Document document);

/// A copy of `value` that lives as long as the pointer; tensors in it refer to storages that it has not.
std::shared_ptr<const torch::Value> kept_copy(torch::Value value);

/// The same with the tensors that `value` has in `archive`, whose elements are added to `storages` under new keys;
/// where they are large, as they are not in what Megatron keeps beside its parameters, they stay behind.
std::shared_ptr<const torch::Value> kept_copy(const torch::Archive& archive, torch::Value value,
                                              torch::Contents& storages);

}  // namespace tpx::formats
