// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"

#include <string>
#include <string_view>

namespace tpx::formats {

/// Whether the extra state of a layer (`_extra_state` of TransformerEngine), a value of `archive`, contains nothing: it
/// is None, a tensor without elements, a stream in which torch.save has stored None, or a list of these.
bool is_empty_extra_state(torch::Value value, const torch::Archive& archive);

/// The name in the whole model of the extra state that a rank's model chunk stores as `stored`: `first_layer`, the
/// number of the chunk's first layer, is added to the number of the layer.
std::string extra_state_of_model(std::string_view stored, int first_layer);

/// The same for the object `stored` of torch_dist: "decoder.layers.mlp.linear_fc1._extra_state/shard_3_32" is
/// "decoder.layers.3.mlp.linear_fc1._extra_state". Names of other forms, such as those of experts, are unchanged.
std::string extra_state_of_object(std::string_view stored);

}  // namespace tpx::formats
