// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/layout/layout.hpp"
#include "lib/layout/model_state.hpp"
#include "lib/layout/reading.hpp"

#include <string>
#include <vector>

namespace tpx {

/// What decides how layouts split a tensor: facts of its model, the same for every layout. Axes are those of `shape`.
struct TensorForm {
    Shape shape;
    int layer_axis = -1;              ///< the axis that stacks layers; -1: none
    int layer = -1;                   ///< the layer of the whole tensor; -1: see layer_axis, or it has none
    bool first = false;               ///< without a layer, with `last`: on the first stage as well
    bool last = false;                ///< without a layer: on the last stage; else on the first
    int expert_axis = -1;             ///< the axis that stacks experts; -1: none
    Index experts = 0;                ///< experts of the layer; 0: the tensor belongs to no expert
    Index expert = 0;                 ///< the expert of the whole tensor, if it has no expert_axis
    int tp_axis = -1;                 ///< the axis that tensor parallelism splits; -1: none
    std::vector<Interval> tp_blocks;  ///< of tp_axis, ascending; each is split, and a rank holds its part of each
    Index tp_unit = 1;                ///< this many elements of tp_blocks are stored as `tp_stored` elements of tp_axis
    Index tp_stored = 1;
    Index pad = 0;            ///< if positive, tp_axis is padded to a multiple of pad * tp before the split
    bool replicated = false;  ///< FSDP and ZeRO do not split it
    int virtual_node = -1;    ///< only ranks that run this virtual node hold it; -1: it belongs to none
};

/// The form of a stored tensor. A tensor that is not a parameter of the family has no axis that is split and is on the
/// first stage. Throws Error "tensor 'NAME': ..." if its experts or parts cannot be distinguished.
TensorForm form_of(const Reading& reading, const Tensor& tensor, const Meaning& meaning);

/// The form of the tensors of one layer of a class; experts are stacked along axis 0.
TensorForm form_of(const TensorClass& kind);

/// Throws Error (usage) if `layout`, of a model without experts, splits experts.
void check_without_experts(const Layout& layout);

/// Throws Error (usage) if `layout` is invalid for the whole model: tp does not divide its heads, ep is used without
/// experts, or tp or pp is used without a family. The message contains the numbers and values of tp that fit.
void check_layout(const Reading& reading, const Layout& layout);

/// The degrees up to twice `degree` that divide `size`, the largest six: "1, 2 or 4".
std::string fitting_degrees(Index size, int degree);

}  // namespace tpx
