// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/model_state.hpp"

#include <string>

namespace tpx {

/// The numbers of a transformer that time and memory depend on.
struct ModelSize {
    std::string name;
    double parameters = 0;         ///< all of them
    double active_parameters = 0;  ///< that one token passes through; 0: all
    int layers = 1;
    double hidden = 1;
    double heads = 1;
    double sequence = 1;           ///< tokens of a sample
    double vocabulary = 0;         ///< 0: no logits
    bool flash_attention = false;  ///< attention keeps no scores
    double bytes = 2;              ///< of an element of weights, gradients and activations
    double gradient_bytes = 2;     ///< of an element of the gradients that are kept

    double active() const { return active_parameters > 0 ? active_parameters : parameters; }
    /// FLOPs of the forward and backward pass of a sample, without recomputation: 6 for each parameter and token, and
    /// 12 for each layer, hidden unit and pair of tokens; 0 if sizes are missing.
    double sample_flops() const;
};

/// What can be read off the tensors of `model`: parameters, layers, hidden size and vocabulary (of the class "embed").
/// `experts_per_token` of each layer's experts are active. Heads cannot be seen and are hidden / 128.
ModelSize size_of(const ModelState& model, double sequence, double experts_per_token = 1);

}  // namespace tpx
