// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "formats/encodings/hdf5/survey.hpp"

namespace tpx::formats::hdf5 {

/// A surveyed HDF5 file of a checkpoint and its number among the catalogue's files.
struct OpenedFile {
    std::uint32_t number = 0;
    Survey survey;
};

/// Surveys a file in the catalogue's directory and adds it to the catalogue.
OpenedFile open_file(Catalogue& catalogue, const std::filesystem::path& name);

/// Does the same for the member `model.weights.h5` of a Keras archive, stored or deflated.
OpenedFile open_archive(Catalogue& catalogue, const std::filesystem::path& name);

/// The member `name` of a Keras archive as text; empty if there is none.
std::string archive_text(const std::filesystem::path& archive, const char* name);

/// A dataset that contains a tensor or a part of one.
struct NamedDataset {
    std::string name;
    Role role = Role::weight;
    std::optional<Shape> shape;  ///< of the whole tensor, if the dataset is a part
    Tuple<Index> first;          ///< where the part starts in the tensor
    std::int32_t rank = -1;
    const DatasetFacts* facts = nullptr;
    std::uint32_t file = 0;
    std::string new_path;  ///< for legacy Keras files: the path in Keras 3 files; empty if unknown
};

/// Assembles datasets into tensors. Throws Error "FILE: dataset 'PATH': ..." if one cannot be read, is a duplicate, or
/// does not fit the others.
void add_tensors(std::span<const NamedDataset> datasets, Checkpoint& checkpoint);

/// Converts a path to a name: parts joined by dots.
std::string dotted(std::string_view path);

}  // namespace tpx::formats::hdf5
