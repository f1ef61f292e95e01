// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/encodings/new_objects.hpp"

#include <cstdint>
#include <string_view>

namespace tpx::formats::megatron {

/// The layout with which a Megatron checkpoint was saved, according to its args.
Layout source_layout(const Checkpoint& source);

/// Whether each rank has the same place in both layouts, so that a rank's own state can be copied unchanged.
bool same_ranks(const Layout& a, const Layout& b);

/// Whether a module called `name` is a linear layer that has an extra state, or a norm and a linear layer as one
/// module: "linear_qkv", "eh_proj", and "in_proj" and "out_proj" of Mamba blocks and gated delta nets.
bool is_linear_module(std::string_view name);

/// The root of a ShardedObject's archive.
enum class ObjectForm : std::uint8_t {
    listed,  ///< a list that contains the value, as torch_dist stores it
    bare     ///< the value itself, as the zarr backend stores it
};

/// The objects of a new distributed checkpoint: RNG states for the new ranks; all other objects of a distributed
/// source; for other sources, the (empty) extra states of linear layers, without which Megatron does not load the
/// checkpoint. The state of the rerun machine is copied only if ranks stay the same.
NewObjects new_objects(const Content& content, ObjectForm form);

}  // namespace tpx::formats::megatron
