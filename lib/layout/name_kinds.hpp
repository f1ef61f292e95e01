// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tpx {

/// Tensors whose names differ only in the numbers of their layer and expert.
struct NameKind {
    std::string text;   ///< with `{l}` and `{e}`: "model.layers.{l}.mlp.experts.{e}.up_proj.weight"
    std::string layer;  ///< the prefix of the layer: "model.layers.{l}"; empty: not in a layer
    bool expert = false;
    bool same_shapes = true;
    bool in_all_layers = true;
    Shape shape;
    DType dtype = DType::f32;
    std::size_t count = 0;

    /// The module's own name: "up_proj" of "...up_proj.weight".
    std::string module() const;
    /// The last part of the name: "weight", "bias".
    std::string leaf() const;
};

/// The kinds of `tensors` in the order in which they first appear. The expert number of a name is the number after a
/// word for experts; the layer number is the first other number. Only the stack of layers with the most tensors counts
/// as layers; `others` receives a glob for each further stack, such as a vision tower, whose tensors are omitted.
std::vector<NameKind> name_kinds(std::span<const Tensor> tensors, std::vector<std::string>& others);

}  // namespace tpx
