// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/interval.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tpx::formats {

/// The name of the manifest in the folder of a state.
inline constexpr const char* manifest_name = "manifest.json";

/// A file of a state. Its bytes are the same in all stores that have it.
struct ManifestFile {
    std::filesystem::path path;  ///< relative to the folder of the state
    std::uint64_t size = 0;
    std::uint64_t crc = 0;               ///< linear CRC-64 of its content
    std::vector<std::uint32_t> hosts;    ///< indices of the hosts whose stores have it, ascending
    std::vector<std::uint32_t> tensors;  ///< indices of the tensors of which it contains a part, ascending
};

/// A host of a state, and the ranks that run on it.
struct ManifestHost {
    std::string name;
    std::vector<int> ranks;
    std::vector<int> devices;  ///< of the ranks, in their order; empty: 0, 1, ...
};

/// What node-local stores contain of one state of a job, the same on every host that has the state.
struct Manifest {
    std::string job;
    std::int64_t iteration = 0;
    std::uint64_t epoch = 0;  ///< counts the changes of the job's stores
    std::string change;       ///< the identifier of the change that made the state
    std::string request;      ///< a digest of what the user asked for
    std::string model;        ///< a digest of the names and shapes of the tensors that the job began with
    std::string plan;         ///< a digest of the plan
    std::string layout;
    std::string format;
    int replicas = 1;            ///< every file is in at least as many stores
    int requested_replicas = 0;  ///< made by the next change if the state was saved from leaving hosts; 0: `replicas`
    std::vector<ManifestHost> hosts;
    std::vector<std::string> tensors;
    std::vector<ManifestFile> files;
};

/// "JOB-ITERATION-EPOCH", the name of the folder of a state.
std::string state_name(const Manifest& manifest);

/// The text of a manifest file.
std::string to_text(const Manifest& manifest);

/// Parses the text of a manifest; `file` names it in errors. Throws Error if it is damaged.
Manifest parse_manifest(const std::string& text, const std::filesystem::path& file);

/// Throws Error unless `file` has `size` bytes.
void require_size(const std::filesystem::path& file, std::uint64_t size);

/// The linear CRC-64 of the content of a file of `size` bytes. Throws Error if it cannot be read or has another size.
/// Calls `on_read` with the number of bytes after each part that it reads.
std::uint64_t crc_of_file(const std::filesystem::path& file, std::uint64_t size,
                          const std::function<void(std::uint64_t)>& on_read = {});

/// The same without reading the bytes in the ranges `known`, which are ascending and disjoint: `crc` is the CRC of the
/// file with zeros in place of all other bytes.
std::uint64_t crc_of_file(const std::filesystem::path& file, std::uint64_t size, std::span<const Interval> known,
                          std::uint64_t crc);

}  // namespace tpx::formats
