// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/hdf5/survey.hpp"

#include <map>

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
};

}  // namespace tpx::formats::hdf5
