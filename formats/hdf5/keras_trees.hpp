// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/encodings/hdf5/tree.hpp"

namespace tpx::formats::hdf5 {

/// The groups and datasets of a file of Keras of `format` that holds the tensors of `content`, which come from Keras:
/// those of the source, or of the checkpoint of the same model that was given beside it, or made out of the model's
/// configuration. Throws Error when none of them tells enough; it says which layer it is about, and what would help.
Tree keras_tree(Format format, const Content& content);

}  // namespace tpx::formats::hdf5
