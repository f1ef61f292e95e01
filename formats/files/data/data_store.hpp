// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/data/data_position.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// A data store: the folder of one host that contains the data files of a job, under the paths of the data position.
namespace tpx::formats {

/// Names in a data store that begin with this prefix are reserved for tpx.
inline constexpr std::string_view reserved_prefix = "tpx.";

/// The name of the file in a data store that records the checksums of its files.
inline constexpr const char* data_record_name = "tpx.data-store.json";

/// A file that a data store contains.
struct DataStoreFile {
    std::filesystem::path path;  ///< relative to the data store
    bool is_optional = false;    ///< the file may be missing from all hosts
};

/// The files that contain the data of `position`, in their order and each once. Megatron's FILE.idx implies FILE.bin,
/// and FILE.bin implies FILE.idx, which is optional. Throws Error (usage) if the position lists no files, or if a path
/// could leave the data store or has a reserved name.
std::vector<DataStoreFile> stored_data_files(const DataPosition& position);

/// A file of a data store.
struct StoredData {
    std::uint64_t size = 0;
    std::int64_t modified = 0;  ///< nanoseconds since 1970
    std::uint64_t crc = 0;      ///< linear CRC-64 of its content
    unsigned mode = 0600;       ///< permissions, which are not recorded
};

/// The files that the record of the data store `folder` lists, by their paths. Empty if it has no record, or a damaged
/// one: then the files are read again.
std::map<std::string, StoredData> read_data_record(const std::filesystem::path& folder);

/// Writes the record.
void write_data_record(const std::filesystem::path& folder, const std::map<std::string, StoredData>& files);

/// Size, time and permissions of the regular file at `path`, without a checksum. Throws Error "PATH: cause" if it is
/// not a regular file.
StoredData stored_data_at(const std::filesystem::path& path);

}  // namespace tpx::formats
