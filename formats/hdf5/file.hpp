// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/encodings/hdf5/survey.hpp"

namespace tpx::formats::hdf5 {

/// An HDF5 file of a checkpoint, surveyed; its number among the catalogue's files.
struct OpenedFile {
    std::uint32_t number = 0;
    Survey survey;
};

/// Surveys a file of the catalogue's directory, and adds it to the catalogue.
OpenedFile open_file(Catalogue& catalogue, const std::filesystem::path& name);

/// The same of the member `model.weights.h5` of a Keras archive, stored or deflated.
OpenedFile open_archive(Catalogue& catalogue, const std::filesystem::path& name);

/// The member `name` of a Keras archive as text; empty when there is none.
std::string archive_text(const std::filesystem::path& archive, const char* name);

/// A dataset that is, or is a part of, a tensor.
struct NamedDataset {
    std::string name;
    Role role = Role::weight;
    std::optional<Shape> shape;  ///< of the whole tensor, where the dataset is a part
    Tuple<Index> first;          ///< where it begins in there
    std::int32_t rank = -1;
    const DatasetFacts* facts = nullptr;
    std::uint32_t file = 0;
    std::string new_path;  ///< of Keras' old kind: where version 3 has it; empty when that is not known
};

/// Puts datasets together to tensors. Throws Error "FILE: dataset 'PATH': ..." when one cannot be read, is there twice,
/// or does not fit the others.
void add_tensors(std::span<const NamedDataset> datasets, Checkpoint& checkpoint);

/// A path as a name: its parts joined by dots.
std::string dotted(std::string_view path);

}  // namespace tpx::formats::hdf5
