// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/hdf5/tree.hpp"

#include <string>
#include <string_view>
#include <vector>

/// What a model's configuration and version 3's weights together tell of a model's variables.
namespace tpx::formats::hdf5 {

struct KerasVariable {
    std::string path;  ///< its dataset in version 3's weights: "layers/dense/vars/0"
    std::string name;  ///< with those of the layers that it lies in: "head/inner/kernel"
    bool trainable = true;
};

/// A layer of the model itself, and the variables in it, trainable ones first, as the old kind has them.
struct KerasVariables {
    std::string layer;
    std::vector<KerasVariable> variables;
};

/// All variables of a functional or sequential model's layers, whose `config` is of version 3. Throws Error "layer
/// 'NAME': ..." when `tree` has variables in it of which the class does not tell names and order, as those of classes
/// that are not Keras' own, or when a layer shares its variables with another model.
std::vector<KerasVariables> keras_variables(const Tree& tree, std::string_view config);

/// What each of the `count` variables of an optimizer is called, in order; by number where its class is not known, or
/// when it has not as many as that class.
std::vector<std::string> optimizer_names(std::string_view config, std::size_t count,
                                         const std::vector<KerasVariables>& layers);

}  // namespace tpx::formats::hdf5
