// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/hdf5/survey.hpp"

#include <map>
#include <memory>

namespace tpx::formats {
struct Checkpoint;
}

namespace tpx::formats::hdf5 {

/// What an HDF5 checkpoint has around its tensors.
struct Tree {
    /// A tensor's dataset.
    struct Origin {
        std::string path;
        Attributes attributes;
        std::string new_path;  ///< of Keras' old kind: where version 3 has it; empty when that is not known
    };

    std::vector<GroupFacts> groups;
    std::map<std::string, Origin> datasets;  ///< by tensor

    std::string config;                      ///< of a model of Keras 3, as JSON; empty when it is not known
    std::string keras_version;               ///< that wrote the file; empty when it is not known
    std::shared_ptr<const Checkpoint> like;  ///< another one of the same model, given to tell where things stand
};

}  // namespace tpx::formats::hdf5
