// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/moves.hpp"
#include "lib/core/catalogue.hpp"

#include <random>
#include <string>
#include <vector>

namespace tpx::test {

using Random = std::mt19937_64;

/// Tensors split into pieces in files: with any order of axes, some interleaved, some stored twice, with gaps.
struct RandomSide {
    std::vector<Tensor> tensors;
    std::vector<Piece> pieces;
    std::vector<std::vector<std::vector<std::uint32_t>>> tilings;  ///< for each tensor, sets of pieces that tile it
    std::vector<FileEntry> files;

    /// A region of a file that contains one or more pieces without gaps.
    struct Region {
        std::uint32_t file;
        std::uint64_t offset;
        std::uint64_t length;
    };
    std::vector<Region> regions;

    Side side() const { return {tensors, pieces}; }
};

/// Two sides with the same tensor names and shapes; some tensors are cast.
struct RandomJob {
    RandomSide source;
    RandomSide target;
    Moves moves;
    Draft draft;  ///< of the target: regions as tensors of bytes, each with a checksum in a separate file
    std::vector<std::string> content;  ///< of the source's files
};

RandomJob random_job(Random& random, bool large);

/// The expected content of the target's files, from moving one element at a time; checksums by zlib.
std::vector<std::string> expected_files(const RandomJob& job);

}  // namespace tpx::test
