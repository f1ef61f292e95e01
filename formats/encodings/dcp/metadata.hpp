// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace tpx::formats {

/// Reads `directory`/.metadata into `checkpoint`'s catalogue, archives and planner data. Pieces are sorted and not
/// empty. Does not look at the data files, whose sizes stay 0. Throws Error "FILE: tensor 'NAME': ..." for anything
/// that neither DCP nor Megatron writes.
void read_metadata(const std::filesystem::path& directory, Checkpoint& checkpoint);

/// Fills in the sizes of the catalogue's files, and checks that every archive and object is inside its file and
/// overlaps no other. A missing file, if allowed, gets the smallest possible size: the end of its last extent.
void check_extents(Checkpoint& checkpoint, MissingFiles missing);

/// Calls read_metadata() and check_extents(), and finds holes and overlaps of boxes. The readers of DCP and torch_dist
/// share this function.
void open_chunks(const std::filesystem::path& directory, Checkpoint& checkpoint, MissingFiles missing);

/// The rank R of a file "__R_N.distcp"; -1 for other names.
std::int32_t rank_of_file(std::string_view path);

}  // namespace tpx::formats
