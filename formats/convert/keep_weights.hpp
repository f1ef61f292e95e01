// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <filesystem>

namespace tpx::formats {

/// What keep_weights() dropped.
struct DroppedState {
    std::size_t states = 0;                    ///< the number of tensors with optimizer state
    std::vector<std::string> others;           ///< tensors that are neither weights nor optimizer state
    std::vector<std::filesystem::path> files;  ///< Trainer's optimizer, scheduler and RNG files
};

/// Drops everything except weights. The master becomes the weight of a parameter that has no other weight (ZeRO 3);
/// with `masters`, of every parameter that has a master.
DroppedState keep_weights(Source& source, bool masters);

}  // namespace tpx::formats
