// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/hdf5/opened_file.hpp"

/// Keras' file formats of a model. All record the name of each layer, but only the legacy format records the names of
/// its variables, and only Keras 3 files record its position in the model. Both have the chain of layers' names and the
/// order of a layer's variables. Tensors are therefore named CHAIN.vars.N and optimizer.vars.N, so that the same state
/// has the same names in every format.
namespace tpx::formats::hdf5 {

enum class KerasFormat { no, weights, legacy };

/// The Keras format of the file `name`, if any.
KerasFormat keras_format(const Survey& survey, const std::filesystem::path& name);

/// The variables of Keras 3 weights, in one file or in several with parts of one tree.
std::vector<NamedDataset> keras_weights(std::span<const OpenedFile> files);

/// The variables of a legacy whole model, or of legacy weights, in the order of its attributes. Throws Error if a
/// variable that they list is missing.
std::vector<NamedDataset> keras_legacy(const OpenedFile& file);

/// Whether a tensor is a layer's RNG state, which the legacy format does not store.
bool is_keras_seed(std::string_view name);

/// The texts of attribute `name`, which may be split into `name`0, `name`1, ...; unset if there is neither.
std::optional<std::vector<std::string>> keras_list(const Attributes& attributes, const std::string& name);

/// The files that a model.weights.json lists. Throws Error "FILE: ..." if it is malformed.
std::vector<std::filesystem::path> keras_shards(const std::filesystem::path& index);

}  // namespace tpx::formats::hdf5
