// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/builder.hpp"
#include "formats/deepspeed/grid.hpp"

namespace tpx::formats::deepspeed {

/// Adds the master weights and the optimizer state that stand under `folder`/zero in a folder for each parameter. What
/// a trainable parameter lacks becomes a hole. Throws Error "FILE: tensor 'NAME': ..." for another shape than that of
/// the parameter, and for parameters that the model files do not know.
void add_universal(Grid& grid, const std::filesystem::path& folder, Builder& builder);

}  // namespace tpx::formats::deepspeed
