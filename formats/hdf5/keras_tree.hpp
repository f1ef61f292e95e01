// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/encodings/hdf5/tree.hpp"

namespace tpx::formats::hdf5 {

/// The groups and datasets of a Keras file in `format` for the tensors of `content`, which come from Keras. They are
/// those of the source, or of the user's other checkpoint of the same model, or created from the model's configuration.
/// Throws Error if none of these is sufficient, with the layer and the remedy.
Tree keras_tree(Format format, const Content& content);

}  // namespace tpx::formats::hdf5
