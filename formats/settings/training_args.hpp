// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace tpx::formats::megatron {

/// Whether an entry of Megatron's args describes the model or its training. False for what describes the layout (sizes
/// of parallel groups, padding, the distributed optimizer), how and where checkpoints are read and written,
/// communication, logging and profiling: two runs may differ in these and have the same training state.
bool describes_training(std::string_view arg);

}  // namespace tpx::formats::megatron
