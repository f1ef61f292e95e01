// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/adapters/adapter.hpp"
#include "formats/source.hpp"

namespace tpx::formats {

/// Gives the base an output layer of its own if it is tied to the embedding and `adapter` replaces one of them, or both
/// by different values, as PEFT does. Names the replaced output layer as the base does.
void untie_output_layer(Source& source, Adapter& adapter);

}  // namespace tpx::formats
