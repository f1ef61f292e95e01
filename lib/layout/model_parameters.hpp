// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/express.hpp"
#include "lib/layout/occurrences.hpp"

#include <string>
#include <vector>

namespace tpx {

/// One layer's or expert's canonical tensor.
struct PlacedTensor {
    std::string tensor;
    Place place;
    std::string stored;  ///< its name in the dialect
};

/// Parameters that differ between a state and a model.
struct ParameterDifference {
    std::vector<PlacedTensor> missing;     ///< what the model has and the state lacks
    std::vector<PlacedTensor> unexpected;  ///< what the state has and the model lacks

    bool none() const { return missing.empty() && unexpected.empty(); }
};

/// Compares the weights of `expressed` with the parameters of the model that the framework of its dialect builds from
/// the configuration `written`, by the family's [present] conditions, with an entry for each layer and expert. Empty if
/// some sizes follow only from tensors. Throws Error if `written` lacks sizes of the model.
ParameterDifference parameter_difference(const ExpressedState& expressed, const Config& written);

}  // namespace tpx
