// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/data/data_position.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

// A data store: the folder of one host that contains the data files of a job, under the paths of the data position.
namespace tpx::formats {

/// The name of the file in a data store that records the checksums of its files.
inline constexpr const char* data_record_name = "tpx.data-store.json";

/// The files that the data of `position` consists of, in their order and each once: Megatron's FILE.idx and FILE.bin
/// belong together. Throws Error (usage) if the position lists no files, or if a path could leave the data store.
std::vector<std::filesystem::path> stored_data_files(const DataPosition& position);

/// A file of a data store.
struct StoredData {
    std::uint64_t size = 0;
    std::int64_t modified = 0;  ///< nanoseconds since 1970
    std::uint64_t crc = 0;      ///< linear CRC-64 of its content
};

/// The files that the record of the data store `folder` lists, by their paths. Empty if it has no record. Throws Error
/// "PATH: cause" if the record is damaged.
std::map<std::string, StoredData> read_data_record(const std::filesystem::path& folder);

/// Writes the record.
void write_data_record(const std::filesystem::path& folder, const std::map<std::string, StoredData>& files);

/// Size and time of the regular file at `path`, without a checksum. Throws Error "PATH: cause" if it is none.
StoredData stored_data_at(const std::filesystem::path& path);

}  // namespace tpx::formats
