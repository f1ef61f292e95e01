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
    bool by_layer = false;          ///< leading axes of layers and of experts are cut into single ones
    bool experts_together = false;  ///< but those of experts are not: a rank's share one tensor (grouped GEMM)
};

/// A box of a stored tensor and which coordinates hold it; -1: all of them.
struct Shard {
    Box box;
    int tp = -1;  ///< among the ranks that share an expert, if it belongs to experts
    int stage = -1;
    int fsdp = -1;         ///< position among the fsdp shards of a replica
    int ep = -1;           ///< which block of experts
    bool whole = false;    ///< FSDP does not cut it
    bool experts = false;  ///< it belongs to experts, whose ranks are those of the grid of experts
};

/// The boxes into which `layout` cuts a stored tensor; they tile it. `stages` is the stage of each layer. A tensor that
/// is no parameter is one box on the first stage. Throws Error (exit 2) "tensor 'NAME': ..." when it cannot be cut so,
/// with the nearest degrees that can.
std::vector<Shard> shards(const Reading& reading, const Tensor& tensor, const Meaning& meaning, const Layout& layout,
                          const std::vector<int>& stages, const Cutting& cutting);

/// The ranks that hold a shard, in order.
std::vector<int> holders(const Layout& layout, const Shard& shard);

/// Throws Error (exit 2) when `layout` cannot be, whatever the tensors: heads that tp does not divide, more stages than
/// layers. The message has the numbers and the nearest tp that fit.
void check_layout(const Reading& reading, const Layout& layout);

}  // namespace tpx
