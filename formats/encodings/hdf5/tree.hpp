// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/hdf5/survey.hpp"

#include <map>
#include <memory>

namespace tpx::formats {
struct Checkpoint;
}

namespace tpx::formats::hdf5 {

/// The structure of an HDF5 checkpoint: everything but the values of its tensors.
struct Tree {
    /// A tensor's dataset.
    struct Origin {
        std::string path;
        Attributes attributes;
        std::string new_path;  ///< of a legacy Keras file: the path in Keras 3 files; empty: unknown
    };

    std::vector<GroupFacts> groups;
    std::map<std::string, Origin> datasets;  ///< by tensor

    std::string config;                      ///< of a Keras 3 model, as JSON; empty: unknown
    std::string keras_version;               ///< the version that wrote the file; empty: unknown
    std::shared_ptr<const Checkpoint> like;  ///< another checkpoint of the model that shows where datasets belong
};

}  // namespace tpx::formats::hdf5
