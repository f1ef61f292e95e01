// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

namespace tpx::formats {

/// Whether HDF5's signature stands in the file, at its start or behind a user block; tpx's own plan files are none.
bool is_hdf5(const std::filesystem::path& file);

/// Opens HDF5 files: one, or all of a directory together; plain ones, whose groups are modules and whose datasets are
/// tensors, tpx's own of several ranks, and those of Keras: weights in one or many files, archives, whole models of
/// the old kind. Throws Error "FILE: ..." when one is malformed, uses what tpx does not read, or when parts are
/// missing.
Checkpoint open_hdf5(const std::filesystem::path& path);

/// Whether `file`, by its name, is a model or weights of Keras, and no configuration of scalars.
bool is_keras_model(const std::filesystem::path& file);

/// Takes from `file` what `checkpoint`, of Keras, does not tell of its model: `file` is the model's configuration as
/// JSON, or another checkpoint of it, which shows where in its form everything stands. Nothing is done where neither is
/// of Keras. Throws Error when only one of them is.
void add_keras_model(const std::filesystem::path& file, Checkpoint& checkpoint);

/// model.h5, or rank_RRRRR.h5 for each of several ranks, as tpx-hdf5(5) describes.
Draft draft_hdf5(const Content& content);

/// model.weights.h5 (keras_driver) or a whole model, model.h5 (keras_legacy_driver), with the groups and attributes
/// of a source of the same format, or else what the model's configuration tells. Throws Error when it does not tell
/// enough, and Error (usage) for sources that are not of Keras.
Draft draft_keras(Format format, const Content& content);

}  // namespace tpx::formats
