// SPDX-License-Identifier: Apache-2.0
#include "formats/torch/bin_files.hpp"

#include "formats/companions.hpp"
#include "formats/encodings/safetensors/weight_map.hpp"
#include "formats/folder_files.hpp"
#include "formats/torch/driver.hpp"
#include "formats/torch/torch_file.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"

#include <set>
#include <unordered_map>
#include <utility>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;

constexpr const char* one_file = "pytorch_model.bin";
constexpr const char* index_file = "pytorch_model.bin.index.json";

/// Adds the tensors of the file `path`, and their names to `names`. Throws Error if a name is already in `names`.
void add_file(Checkpoint& checkpoint, const fs::path& path, std::set<std::string>& names) {
    Checkpoint part = open_torch_file(&torch_driver, checkpoint.catalogue.directory / path);
    Catalogue& catalogue = checkpoint.catalogue;
    const auto first = static_cast<std::uint32_t>(catalogue.tensors.size());
    const auto first_file = static_cast<std::uint32_t>(catalogue.files.size());
    for (FileEntry& file : part.catalogue.files) {  // several if storages are decoded
        file.path = path;
        catalogue.files.push_back(std::move(file));
    }
    for (Tensor& tensor : part.catalogue.tensors) {
        if (!names.insert(tensor.name).second)
            throw failure("{}: tensor '{}': is also in another file", (catalogue.directory / path).string(),
                          tensor.name);
        catalogue.tensors.push_back(std::move(tensor));
    }
    for (Piece piece : part.catalogue.pieces) {
        piece.tensor += first;
        piece.file += first_file;
        catalogue.pieces.push_back(piece);
    }
}

/// Checks that index and files agree on the file of each tensor.
void check_index(const Catalogue& catalogue, const safetensors::WeightMap& map) {
    std::unordered_map<std::string_view, std::uint32_t> files;
    for (const auto& [name, file] : map.entries)
        if (!files.emplace(name, file).second) throw failure("tensor '{}': appears twice in weight_map", name);
    for (const Piece& piece : catalogue.pieces) {
        const std::string& name = catalogue.tensors[piece.tensor].name;
        const auto listed = files.find(name);
        if (listed == files.end())
            throw failure("tensor '{}': {} has it, but the index does not", name,
                          catalogue.files[piece.file].path.string());
        if (map.files[listed->second] != catalogue.files[piece.file].path)
            throw failure("tensor '{}': {} has it instead of {}", name, catalogue.files[piece.file].path.string(),
                          map.files[listed->second].string());
    }
    std::set<std::string_view> stored;
    for (const Tensor& tensor : catalogue.tensors) stored.insert(tensor.name);
    for (const auto& [name, file] : map.entries)
        if (!stored.contains(name)) throw failure("tensor '{}': {} lacks it", name, map.files[file].string());
}

}  // namespace

bool holds_bin_files(const fs::path& directory) {
    return path_exists(directory / index_file) || path_exists(directory / one_file);
}

Checkpoint open_bin_files(const fs::path& directory) {
    Checkpoint checkpoint{.format = format_by_name("safetensors").value()};
    checkpoint.catalogue.directory = directory;
    std::set<std::string> names;
    if (const fs::path index = directory / index_file; path_exists(index)) {
        const safetensors::WeightMap map = safetensors::read_index(index);
        for (const fs::path& file : map.files) add_file(checkpoint, file, names);
        in_context([&] { return index.string(); }, [&] { check_index(checkpoint.catalogue, map); });
    } else {
        add_file(checkpoint, one_file, names);
    }
    read_config(directory, checkpoint);
    find_companions(directory, checkpoint);
    find_folder_files(directory, checkpoint);
    checkpoint.notes.push_back("the weights are in torch.save files; converted weights are written as safetensors");
    return checkpoint;
}

}  // namespace tpx::formats
