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
    std::string layer;  ///< what comes before the suffix of a layer: "model.layers.{l}"; empty: it is in no layer
    bool expert = false;
    bool same_shapes = true;
    bool in_all_layers = true;
    Shape shape;
    DType dtype = DType::f32;
    std::size_t count = 0;

    /// The module's own name: "up_proj" of "...up_proj.weight".
    std::string module() const;
    /// "weight", "bias"; the last part of the name.
    std::string leaf() const;
};

/// The kinds of `tensors` in the order in which they first appear. Layers are numbered by the first number of a name
/// that follows no word about experts, experts by one that does. Only the stack with most tensors has layers; `others`
/// receives a glob for each further one, such as a vision tower, whose tensors are left out.
std::vector<NameKind> name_kinds(std::span<const Tensor> tensors, std::vector<std::string>& others);

}  // namespace tpx
