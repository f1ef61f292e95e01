// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/builder.hpp"
#include "formats/deepspeed/grid.hpp"

namespace tpx::formats::deepspeed {

/// Adds the master weights and optimizer state in `folder`/zero, which has a folder for each parameter. Missing state
/// of a trainable parameter becomes a hole. Throws Error "FILE: tensor 'NAME': ..." if a shape differs from the
/// parameter's, and for parameters that the model files lack.
void add_universal(Grid& grid, const std::filesystem::path& folder, Builder& builder);

}  // namespace tpx::formats::deepspeed
