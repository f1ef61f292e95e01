// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/megatron/rank_files.hpp"
#include "lib/layout/config.hpp"

#include <filesystem>
#include <vector>

namespace tpx::formats::megatron {

/// The layout that Megatron's args describe; degrees that args lack follow from `directories`. Throws Error if args and
/// `directories` contradict each other.
Layout layout_of(const Config& args, const std::vector<std::filesystem::path>& directories);

/// Every distinct part of the model that ranks of `layout` have, with the lowest rank that has it. Several parts may
/// belong to one directory if experts are split more finely than other tensors (etp > tp). Throws Error (exit 2) if etp
/// * ep does not divide the number of ranks of a stage.
std::vector<RankDirectory> model_parts(const Layout& layout);

/// The directories that Megatron writes for `layout`, in the order of their lowest ranks, with path, coordinates and
/// rank. Throws Error (exit 2) if the layout is invalid, or if different parts of the model belong to one directory.
std::vector<RankDirectory> rank_directories(const Layout& layout);

/// The directories mp_rank_* of an iteration, sorted. Throws Error for a malformed name.
std::vector<std::filesystem::path> find_rank_directories(const std::filesystem::path& iteration);

/// The number of layers of each model chunk of each stage; chunk c of stage p is number c * pp + p.
std::vector<int> layers_of_chunks(const Layout& layout, int layers);

}  // namespace tpx::formats::megatron
