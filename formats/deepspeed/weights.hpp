// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/catalogue_builder.hpp"
#include "formats/deepspeed/writer_grid.hpp"

namespace tpx::formats::deepspeed {

/// Adds the stored weights: modules, layers of pipelines and experts; under ZeRO 3 only buffers and frozen parameters,
/// because trainable parameters exist there as master weights only. Throws Error "FILE: tensor 'NAME': ..." if a
/// tensor's shape differs from param_shapes, or if the way to join slices is unknown. Adds to the notes of `grid`, see
/// open_step_file().
void add_weights(WriterGrid& grid, CatalogueBuilder& builder);

}  // namespace tpx::formats::deepspeed
