// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/catalogue_builder.hpp"
#include "formats/deepspeed/writer_grid.hpp"

namespace tpx::formats::deepspeed {

/// Adds the master weights and optimizer state in `folder`/zero, which has a folder for each parameter. Missing state
/// of a trainable parameter becomes a hole. Throws Error "FILE: tensor 'NAME': ..." if a shape differs from the
/// parameter's, and for parameters that the model files lack.
void add_universal(WriterGrid& grid, const std::filesystem::path& folder, CatalogueBuilder& builder);

}  // namespace tpx::formats::deepspeed
