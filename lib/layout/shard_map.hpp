// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/grid.hpp"
#include "lib/layout/tensor_form.hpp"

#include <cstdint>
#include <vector>

namespace tpx {

/// How a format splits tensors.
struct Cutting {
    bool equal =
        false;  ///< Megatron: unequal tensor-parallel parts are an error; else torch.chunk, the last may be shorter
    bool by_layer = false;          ///< leading axes of layers and of experts are split into single layers and experts
    bool experts_together = false;  ///< except those of experts: the experts of a rank share one tensor (grouped GEMM)
};

/// An interval of an axis and the coordinates of the ranks that hold it.
struct AxisCut {
    Interval interval;
    Owner owner;
};

/// The cuts of one axis; they tile it, and none is empty unless the tensor is.
using Cuts = std::vector<AxisCut>;

/// A box of a tensor and its owner.
struct Shard {
    Box box;
    Owner owner;
    bool of_experts = false;       ///< the owner's coordinates are those of the grid of experts, see grid_of()
    bool of_virtual_node = false;  ///< the owner's shard is the dp coordinate whose ranks run the virtual node
};

/// Which boxes of a tensor the ranks of a layout hold. This is the only code that decides it for planning, resharding
/// and the detection of layouts:
///   experts are split into ep blocks, layers into stages as in tpx-layout(5); tp_axis is split over tp (experts: etp);
///   fsdp splits the result along axis 0 (fsdp_dim) as torch.chunk does, over the ranks that hold the same part; ZeRO
///   splits optimizer state (stage 3: weights too) over all of these, along the first axis that counts neither layers
///   nor experts; state of virtual nodes, axis 0 of which counts them, is split over dp; state of one virtual node is
///   on the ranks that run it. All else is replicated.
class ShardMap {
public:
    /// `stages`: the stage of each layer, see stages_of_layers(); layers beyond are on the last stage.
    ShardMap(const Layout& layout, const Cutting& cutting, std::vector<int> stages);

    /// The cuts of each axis; the boxes of a tensor are their products. Throws Error (usage) with the nearest degrees
    /// that can split the tensor.
    std::vector<Cuts> cuts(const TensorForm& form, Sharing sharing) const;

    /// The boxes into which the layout splits a tensor; they tile it.
    std::vector<Shard> shards(const TensorForm& form, Sharing sharing) const;

    /// The same for a stored tensor. Throws Error "tensor 'NAME': ..." also when form_of() does.
    std::vector<Shard> shards(const Reading& reading, const Tensor& tensor, const Meaning& meaning,
                              Sharing sharing) const;

    /// The ranks that hold a shard, ascending.
    std::vector<std::int32_t> ranks(const Shard& shard, Sharing sharing) const;

    /// The axis along which ZeRO splits a box of `sizes` into `shards` shards. The first `index_axes` axes count layers
    /// and experts; -1 if the box has no other axis.
    int zero_axis(const Shape& sizes, int index_axes, int shards) const;

    /// The stage of a layer, or of a tensor outside layers.
    int stage_of(int layer) const;
    int stage_of(const TensorForm& form) const;

    const Layout& layout() const { return layout_; }

private:
    Cuts layer_cuts(const TensorForm& form) const;
    Cuts expert_cuts(const TensorForm& form) const;
    Cuts tp_cuts(const TensorForm& form, int parts) const;
    int fsdp_axis(const TensorForm& form, const std::vector<Cuts>& cuts, int shards) const;
    void share(std::vector<Cuts>& cuts, const TensorForm& form, Sharing sharing) const;
    Owner owner_of_all(const TensorForm& form) const;

    Layout layout_;
    Cutting cutting_;
    std::vector<int> stages_;
};

}  // namespace tpx
