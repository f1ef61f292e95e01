// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/core/digest.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tpx::formats {

/// The name of the file in which `verify --write` records digests, in a checkpoint's directory.
inline constexpr std::string_view digests_file_name = "tpx.digests.json";

/// The recorded digests of a checkpoint: of each canonical tensor, and of each file as bytes.
struct RecordedDigests {
    struct TensorDigest {
        std::string name;
        std::string stored;  ///< the stored tensor that contains it
        std::string dtype;
        std::string digest;
    };
    struct FileDigest {
        std::string path;
        std::uint64_t size = 0;
        std::string digest;
    };
    std::vector<TensorDigest> tensors;
    std::vector<FileDigest> files;
    bool has_tensors = true;  ///< false: only the files are known, see read_digests
};

/// Where the digests of a checkpoint in folder `directory` are recorded: DIRECTORY/tpx.digests.json or, if the
/// checkpoint was opened as the file `file`, which may have others beside it, DIRECTORY/FILE.tpx.digests.json.
std::filesystem::path digests_path(const std::filesystem::path& directory, const std::string& file = "");

/// The digests recorded for the checkpoint in folder `directory`; unset if there are none. Throws Error "FILE: ..." if
/// they are malformed.
std::optional<RecordedDigests> read_digests(const std::filesystem::path& directory);

/// The same for checkpoint `catalogue`, opened as `file` if that is not empty. If that file has no record of its own,
/// but the folder has one that lists all files of the checkpoint, returns the digests of these files only.
std::optional<RecordedDigests> read_digests(const Catalogue& catalogue, const std::string& file);

/// Replaces the file at `path` with one that records `digests`. Throws Error if `path` is a link.
void write_digests(const std::filesystem::path& path, const RecordedDigests& digests);

/// Every file of a checkpoint except records of digests, as a catalogue of byte tensors, from which file digests are
/// computed. If the checkpoint was opened as the file `file`, these are that file and those of the catalogue; otherwise
/// also all regular files of its folder.
Catalogue files_as_tensors(const Catalogue& catalogue, const std::string& file = "");

/// The same for those of these files that `digests` contains.
Catalogue files_as_tensors(const Catalogue& catalogue, const std::string& file, const RecordedDigests& digests);

/// Links in the folder of a checkpoint that lead nowhere.
std::vector<std::string> dangling_links(const Catalogue& catalogue);

}  // namespace tpx::formats
