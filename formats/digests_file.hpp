// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/core/digest.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tpx::formats {

/// The name of the file in which `verify --write` keeps digests, in a checkpoint's directory.
inline constexpr std::string_view digests_file_name = "tpx.digests.json";

/// What was once found in a checkpoint: the digest of each canonical tensor, and of each file as bytes.
struct RecordedDigests {
    struct TensorDigest {
        std::string name;
        std::string stored;  ///< the stored tensor it is in
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
};

/// The digests kept in `directory`; nothing when there are none. Throws Error "FILE: ..." when they are malformed.
std::optional<RecordedDigests> read_digests(const std::filesystem::path& directory);

/// Keeps `digests` in `directory`, all of them or nothing.
void write_digests(const std::filesystem::path& directory, const RecordedDigests& digests);

/// Every regular file of a checkpoint, its digests aside, as a catalogue of byte tensors: what file digests are made
/// of.
Catalogue files_as_tensors(const Catalogue& catalogue);

}  // namespace tpx::formats
