// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace tpx::formats {

/// Reads `directory`/.metadata into `checkpoint`'s catalogue, archives and planner data. Pieces are sorted and have
/// elements; nothing is checked against the data files, whose sizes stay 0. Throws Error "FILE: tensor 'NAME': ..." for
/// anything that is not what DCP or Megatron write.
void read_metadata(const std::filesystem::path& directory, Checkpoint& checkpoint);

/// Fills in the sizes of the catalogue's files, and checks that every archive and object lies in its file and shares no
/// byte with another. A missing file, if allowed, gets its least size: where its last extent
/// ends.
void check_extents(Checkpoint& checkpoint, MissingFiles missing);

/// read_metadata(), check_extents(), and the check that boxes do not overlap: what the readers of DCP and of
/// torch_dist share.
void open_chunks(const std::filesystem::path& directory, Checkpoint& checkpoint, MissingFiles missing);

/// The rank R of a file "__R_N.distcp"; -1 for other names.
std::int32_t rank_of_file(std::string_view path);

}  // namespace tpx::formats
