// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/zarr_chunks.hpp"

#include "formats/companions.hpp"
#include "formats/encodings/zarr/array.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace tpx::formats::zarr {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view array_metadata = ".zarray";
/// Ending of the folder KEY.sync, in which zarr keeps empty lock files for the files of array KEY, including one named
/// `.zarray`.
constexpr std::string_view locks_ending = ".sync";

/// Whether `file` could be the name of a chunk of some array.
bool looks_like_chunk(std::string_view file) {
    return file.find_first_not_of("0123456789./") == std::string_view::npos && !file.starts_with('.');
}

/// The files in the folder of a key.
struct KeyFolder {
    std::string key;
    fs::path path;
    fs::path real;                     ///< without links
    std::vector<std::string> objects;  ///< "shard_0.1_2.2.pt"
    std::vector<std::string> others;   ///< neither objects nor hidden: chunks, if `.zarray` describes them
};

class ChunkReader {
public:
    ChunkReader(const fs::path& directory, Checkpoint& checkpoint)
        : directory_{directory}, checkpoint_{checkpoint}, catalogue_{checkpoint.catalogue} {}

    void read() {
        for (const std::string& name : list_directory(directory_)) {
            if (name.starts_with('.') || !path_is_directory(directory_ / name)) continue;
            if (is_lock_folder(name)) continue;
            read_folder(name);
        }
        if (catalogue_.tensors.empty())
            throw failure("{}: found no arrays: no folder in it has a {}", directory_.string(), array_metadata);
        std::ranges::sort(catalogue_.pieces, [](const Piece& a, const Piece& b) {
            return std::tie(a.tensor, a.box) < std::tie(b.tensor, b.box);
        });
        checkpoint_.archives.assign(catalogue_.pieces.size(), 0);  // no piece needs to be located
        note_ignored();
    }

private:
    bool is_lock_folder(const std::string& name) const {
        const fs::path metadata = directory_ / name / array_metadata;
        return name.ends_with(locks_ending) && (!path_exists(metadata) || size_of_file(metadata) == 0);
    }

    void read_folder(const std::string& key) {
        KeyFolder folder{
            .key = key, .path = directory_ / key, .real = real_path(directory_ / key), .objects = {}, .others = {}};
        if (!stays_inside(folder.path, directory_))
            throw failure("{}: a link that leads out of the checkpoint", folder.path.string());
        for (const fs::path& file : list_files_below(folder.path)) {
            const std::string name = file.generic_string();
            if (file.filename() == array_metadata && file.has_parent_path())
                throw failure("{}: an array inside the folder of another key, '{}', which is not read",
                              (folder.path / file).string(), key);
            if (name.starts_with("shard_") && name.ends_with(".pt") && !file.has_parent_path())
                folder.objects.push_back(name);
            else if (!name.starts_with('.'))
                folder.others.push_back(name);
        }
        for (const std::string& name : folder.objects) add_object(folder, name);
        if (path_exists(folder.path / array_metadata)) return add_array(folder);
        if (path_exists(folder.path / "zarr.json"))
            throw failure("{}: tensor '{}': an array of zarr version 3; only version 2 is read",
                          (folder.path / "zarr.json").string(), key);
        if (std::ranges::any_of(folder.others, looks_like_chunk))
            throw failure("{}: tensor '{}': No such file or directory, but there are chunk files",
                          (folder.path / array_metadata).string(), key);
        if (folder.objects.empty()) ignored_.push_back(key + "/");
    }

    void add_object(const KeyFolder& folder, const std::string& name) {
        const std::uint32_t file = add_file(folder, name, fmt::format("object '{}'", folder.key));
        const std::string stem = name.substr(0, name.rfind('.'));
        catalogue_.objects.push_back(
            {fmt::format("{}/{}", folder.key, stem), file, 0, catalogue_.files[file].size, true});
    }

    void add_array(const KeyFolder& folder) {
        constexpr std::uint64_t longest = 1 << 20;
        const fs::path path = folder.path / array_metadata;
        if (!stays_inside(path, directory_))
            throw failure("{}: tensor '{}': a link that leads out of the checkpoint", path.string(), folder.key);
        const std::string text = read_file(path, longest);
        const ZarrArray array = in_context([&] { return fmt::format("{}: tensor '{}'", path.string(), folder.key); },
                                           [&] { return parse_zarr_array(text); });
        catalogue_.tensors.push_back({folder.key, array.dtype, array.shape});
        const Shape grid = chunk_grid(array);
        Index stored = 0;
        for (const std::string& name : folder.others) {
            if (const auto index = chunk_index(name, array)) {
                add_chunk(folder, name, array, *index, grid);
                ++stored;
            } else {
                ignored_.push_back(folder.key + "/" + name);
            }
        }
        if (stored < volume(grid) && !array.fill.empty())
            checkpoint_.notes.push_back(fmt::format(
                "tensor '{}': lacks {} of {}; fill_value {} is not used instead, because Megatron-core "
                "stores every chunk",
                folder.key, volume(grid) - stored, counted(std::uint64_t(volume(grid)), "chunk file"), array.fill));
    }

    void add_chunk(const KeyFolder& folder, const std::string& name, const ZarrArray& array, const Shape& index,
                   const Shape& grid) {
        const std::string path = (folder.path / name).string();
        for (int axis = 0; axis < grid.size(); ++axis)
            if (index[axis] >= grid[axis])
                throw failure("{}: tensor '{}': this chunk is outside the array, which has {} chunks", path, folder.key,
                              to_string(grid));
        const std::uint32_t file = add_file(folder, name, fmt::format("tensor '{}'", folder.key));
        const std::uint64_t size = catalogue_.files[file].size;
        const std::uint64_t expected = chunk_bytes(array);
        if (size != expected)
            throw failure("{}: tensor '{}': {}, expected {} for a chunk of shape {} of {}", path, folder.key,
                          counted(size, "byte"), expected, to_string(array.chunk), tpx::name(array.dtype));
        catalogue_.pieces.push_back({.tensor = static_cast<std::uint32_t>(catalogue_.tensors.size() - 1),
                                     .file = file,
                                     .offset = 0,
                                     .box = chunk_box(index, array),
                                     .strides = row_major(array.chunk),
                                     .rank = -1});
    }

    std::uint32_t add_file(const KeyFolder& folder, const std::string& name, const std::string& owner) {
        const fs::path path = folder.path / name;
        if (real_path(path) != folder.real / name && !stays_inside(path, directory_))
            throw failure("{}: {}: a link that leads out of the checkpoint", path.string(), owner);
        catalogue_.files.push_back({fs::path{folder.key} / name, size_of_file(path)});
        return static_cast<std::uint32_t>(catalogue_.files.size() - 1);
    }

    void note_ignored() {
        constexpr std::size_t most_named = 5;
        if (ignored_.empty()) return;
        const std::size_t named = std::min(ignored_.size(), most_named);
        std::string note =
            fmt::format("not read, because these are neither chunks nor ShardedObjects: '{}'",
                        fmt::join(ignored_.begin(), ignored_.begin() + static_cast<long>(named), "', '"));
        if (named < ignored_.size()) note += fmt::format(" and {} more", ignored_.size() - named);
        checkpoint_.notes.push_back(note);
    }

    const fs::path& directory_;
    Checkpoint& checkpoint_;
    Catalogue& catalogue_;
    std::vector<std::string> ignored_;
};

}  // namespace

void read_arrays(const fs::path& directory, Checkpoint& checkpoint) {
    checkpoint.catalogue.directory = directory;
    ChunkReader{directory, checkpoint}.read();
    in_context([&] { return directory.string(); }, [&] { find_holes(checkpoint.catalogue); });
}

}  // namespace tpx::formats::zarr
