// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/encodings/new_entries.hpp"

#include <cstdint>
#include <string_view>

namespace tpx::formats::megatron {

/// The layout that a Megatron checkpoint was saved under, as its args tell it.
Layout source_layout(const Checkpoint& source);

/// Whether ranks mean the same in both layouts, so that what belongs to one of them can be carried over as it is.
bool same_ranks(const Layout& a, const Layout& b);

/// Whether a module called `name` is a linear layer that has an extra state, or a norm and a linear layer as one
/// module: "linear_qkv", "eh_proj", and "in_proj" and "out_proj" of Mamba blocks and gated delta nets.
bool is_linear_module(std::string_view name);

/// What the archive of a ShardedObject has as its root.
enum class ObjectForm : std::uint8_t {
    listed,  ///< a list of the value, as torch_dist stores it
    bare     ///< the value itself, as the zarr backend stores it
};

/// The byte entries of a new distributed checkpoint: those of a distributed source, the states of random number
/// generators keyed for the new ranks, and of other sources the (empty) extra states of linear layers, which a load
/// asks for. The state of the rerun machine goes along only where ranks stay the same.
NewObjects new_objects(const Content& content, ObjectForm form);

}  // namespace tpx::formats::megatron
