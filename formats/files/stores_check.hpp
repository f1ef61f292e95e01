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

/// Checks that the stores of all hosts that are not lost hold parts of one checkpoint, which was opened at `root`,
/// where `record` tells what was read. Throws Error when
/// - a file that two stores have, or a store and `root`, is not the same in both. Files of up to 16 MiB are compared
///   whole, longer ones by size and 16 samples of 64 KiB, the first and the last among them;
/// - a store lacks a metadata file: nothing would show that its shards belong to the others';
/// - not identifies_save(), and not every store has the same tpx.digests.json with the digests of all its files.
/// Returns how many files were compared by samples.
std::size_t check_one_checkpoint(const std::string& pattern, std::span<const Host> hosts,
                                 const std::filesystem::path& root, const Checkpoint& checkpoint,
                                 const ReadRecord& record);

/// Whether the metadata identify one save, by its iteration or a save ID, so that equal metadata belong to equal saves.
bool identifies_save(const Checkpoint& checkpoint);

/// Throws Error when `folder` of the store has no tpx.digests.json.
void require_store_digests(const std::filesystem::path& store, const std::filesystem::path& folder);

/// Checks that the tpx.digests.json in `folder` of the store has the digests of all its files, which it reads. Throws
/// Error when it is missing, when a file is not what it records, or soon after `cancelled`, if not null, is true.
void check_store_digests(const std::filesystem::path& store, const std::filesystem::path& folder,
                         const std::atomic<bool>* cancelled = nullptr);

}  // namespace tpx::formats
