// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <filesystem>

namespace tpx::formats {

/// Tensors that were left out.
struct Dropped {
    std::size_t states = 0;                    ///< of an optimizer
    std::vector<std::string> others;           ///< neither that nor weights
    std::vector<std::filesystem::path> files;  ///< of Trainer's optimizer, scheduler and RNG state
};

/// Leaves out what is no weight. A parameter that has only a master weight (ZeRO 3) keeps that as its weight; with
/// `masters` every parameter does that has one.
Dropped keep_weights(Source& source, bool masters);

}  // namespace tpx::formats
