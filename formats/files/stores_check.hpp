// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"
#include "lib/change/hosts.hpp"
#include "lib/core/read_record.hpp"

#include <atomic>
#include <filesystem>
#include <span>
#include <string>

namespace tpx::formats {

/// Checks that the stores of all hosts that are not lost contain parts of one checkpoint, which was opened at `root`;
/// `record` lists the files that were read there. Throws Error if
/// - a file that two stores have, or a store and `root`, is not the same in both. Files of up to 16 MiB are compared
///   completely, longer ones by size and 16 samples of 64 KiB, including the first and the last;
/// - a store lacks a metadata file, without which nothing shows that its shards belong to those of other stores;
/// - identifies_save() is false, and not every store has the same tpx.digests.json with the digests of all its files.
/// Returns how many files were compared by samples.
std::size_t check_one_checkpoint(const std::string& pattern, std::span<const Host> hosts,
                                 const std::filesystem::path& root, const Checkpoint& checkpoint,
                                 const ReadRecord& record);

/// Whether the metadata identifies one save, by its iteration or a save ID, so that equal metadata means equal saves.
bool identifies_save(const Checkpoint& checkpoint);

/// Throws Error if `folder` of the store has no tpx.digests.json.
void require_store_digests(const std::filesystem::path& store, const std::filesystem::path& folder);

/// Reads all files of the store and checks that the tpx.digests.json in `folder` of the store has their digests. Throws
/// Error if it is missing, if a file does not match it, or soon after `cancelled`, if not null, becomes true.
void check_store_digests(const std::filesystem::path& store, const std::filesystem::path& folder,
                         const std::atomic<bool>* cancelled = nullptr);

}  // namespace tpx::formats
