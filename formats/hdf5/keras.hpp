// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/hdf5/file.hpp"

/// Keras' forms of a model. All of them say what each layer is called, but only the old one says what its variables
/// are, and only the new ones say where in the model it stands. What both tell is the chain of layers' names, and the
/// order of a layer's variables: tensors are called CHAIN.vars.N after that, and optimizer.vars.N, so that one state
/// has the same names in every form.
namespace tpx::formats::hdf5 {

enum class Keras { no, weights, legacy };

/// Which form of Keras, if any, wrote the file `name`.
Keras keras_kind(const Survey& survey, const std::filesystem::path& name);

/// The variables of version 3's weights, in one file or in several that hold parts of one tree.
std::vector<NamedDataset> keras_weights(std::span<const OpenedFile> files);

/// The variables of a whole model of the old kind, or of weights alone, in the order of its attributes. Throws Error
/// when a variable that they name is not there.
std::vector<NamedDataset> keras_legacy(const OpenedFile& file);

/// Whether a tensor is the state of a layer's random numbers, which the old kind does not keep.
bool is_keras_seed(std::string_view name);

/// The texts of attribute `name`, which may be cut into `name`0, `name`1, ...; nothing when there is neither.
std::optional<std::vector<std::string>> keras_list(const Attributes& attributes, const std::string& name);

/// The files that a model.weights.json lists. Throws Error "FILE: ..." when it is not what Keras writes.
std::vector<std::filesystem::path> keras_shards(const std::filesystem::path& index);

}  // namespace tpx::formats::hdf5
