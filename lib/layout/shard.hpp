// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/layout/layout.hpp"
#include "lib/layout/reading.hpp"

#include <vector>

namespace tpx {

/// How a format cuts tensors.
struct Cutting {
    bool equal =
        false;  ///< Megatron: tensor-parallel parts are equal or refused; else torch.chunk, the last may be shorter
    bool by_layer = false;  ///< a leading axis of layers is cut into single layers
};

/// A box of a stored tensor and which coordinates hold it; -1: all of them.
struct Shard {
    Box box;
    int tp = -1;
    int stage = -1;
    int fsdp = -1;  ///< position among the fsdp shards of a replica
};

/// The boxes into which `layout` cuts a stored tensor; they tile it. `stages` is the stage of each layer. A tensor that
/// is no parameter is one box on the first stage. Throws Error (exit 2) "tensor 'NAME': ..." when it cannot be cut so,
/// with the nearest degrees that can.
std::vector<Shard> shards(const Reading& reading, const Tensor& tensor, const Meaning& meaning, const Layout& layout,
                          const std::vector<int>& stages, const Cutting& cutting);

/// The ranks that hold a shard.
std::vector<int> holders(const Layout& layout, const Shard& shard);

/// Throws Error (exit 2) when `layout` cannot be, whatever the tensors: heads that tp does not divide, more stages than
/// layers. The message has the numbers and the nearest tp that fit.
void check_layout(const Reading& reading, const Layout& layout);

}  // namespace tpx
