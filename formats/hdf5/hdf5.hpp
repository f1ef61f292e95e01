// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

namespace tpx::formats {

/// Whether the file has HDF5's signature, at its start or after a user block, and is not one of tpx's plan files.
bool is_hdf5(const std::filesystem::path& file);

/// Opens one HDF5 file, or all files of a directory together: plain files, whose groups are modules and whose datasets
/// are tensors; tpx's own files of several ranks; and Keras' files: weights in one or many files, archives, and legacy
/// whole models. Throws Error "FILE: ..." if a file is malformed or uses unsupported features, or if parts are missing.
Checkpoint open_hdf5(const std::filesystem::path& path);

/// Whether `file` is a Keras model or Keras weights by its name, not a configuration file with scalars.
bool is_keras_model(const std::filesystem::path& file);

/// Adds to `checkpoint`, a Keras checkpoint, the model information from `file` that it lacks. `file` is the model's
/// configuration as JSON, or another checkpoint of the model, which shows the place of each tensor in its format. Does
/// nothing if neither is from Keras. Throws Error if only one of them is.
void add_keras_model(const std::filesystem::path& file, Checkpoint& checkpoint);

/// Drafts model.h5, or rank_RRRRR.h5 for each of several ranks, as described in tpx-hdf5(5).
Draft draft_hdf5(const Content& content);

/// Drafts model.weights.h5 (keras_driver) or a whole model, model.h5 (keras_legacy_driver), with the groups and
/// attributes of a source of the same format, or else those implied by the model's configuration. Throws Error if that
/// is insufficient, and Error (usage) if the source is not from Keras.
Draft draft_keras(Format format, const Content& content);

}  // namespace tpx::formats
