// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/hdf5/tree.hpp"

#include <string>
#include <string_view>
#include <vector>

/// The variables of a model, from its configuration and its Keras 3 weights.
namespace tpx::formats::hdf5 {

struct KerasVariable {
    std::string path;  ///< its dataset in Keras 3 weights: "layers/dense/vars/0"
    std::string name;  ///< including the layers that contain it: "head/inner/kernel"
    bool trainable = true;
};

/// A top-level layer of the model and its variables, trainable ones first, as in the legacy format.
struct KerasVariables {
    std::string layer;
    std::vector<KerasVariable> variables;
};

/// All variables in the layers of a functional or sequential model. `config` is its Keras 3 configuration. Throws Error
/// "layer 'NAME': ..." if names and order of variables in `tree` are unknown, as for classes that are not Keras' own,
/// or if a layer shares its variables with another model.
std::vector<KerasVariables> keras_variables(const Tree& tree, std::string_view config);

/// The names of the `count` variables of an optimizer, in order; numbered if its class is unknown or has another number
/// of variables.
std::vector<std::string> optimizer_names(std::string_view config, std::size_t count,
                                         const std::vector<KerasVariables>& layers);

}  // namespace tpx::formats::hdf5
