// SPDX-License-Identifier: Apache-2.0
#include "lib/model/model_size.hpp"

#include <algorithm>

namespace tpx {

double ModelSize::sample_flops() const {
    if (parameters <= 0 || sequence <= 1 || hidden <= 1) return 0;
    return sequence * (6 * active() + 12 * layers * hidden * sequence);
}

ModelSize size_of(const ModelState& model, double sequence, double experts_per_token) {
    ModelSize size;
    size.name = model.name;
    size.layers = std::max(1, model.layers);
    size.sequence = sequence;
    for (const TensorClass& tensors : model.classes) {
        if (tensors.of_virtual_nodes) continue;
        double elements = std::max<double>(1, static_cast<double>(tensors.layers.size()));
        for (const Index extent : tensors.shape) elements *= static_cast<double>(extent);
        const auto experts = static_cast<double>(tensors.experts);
        size.parameters += elements * std::max(1.0, experts);
        size.active_parameters += elements * (experts > 0 ? std::min(experts, experts_per_token) : 1.0);
        if (tensors.name == "embed" && tensors.shape.size() == 2) {
            size.vocabulary = static_cast<double>(tensors.shape[0]);
            size.hidden = static_cast<double>(tensors.shape[1]);
        }
    }
    size.heads = std::max(1.0, size.hidden / 128);
    return size;
}

}  // namespace tpx
