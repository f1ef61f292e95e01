// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/megatron/rank_files.hpp"
#include "lib/layout/config.hpp"

#include <filesystem>
#include <vector>

namespace tpx::formats::megatron {

/// The layout that Megatron's args tell, with the degrees that `directories` show where args are silent. Throws Error
/// when they contradict each other.
Layout layout_of(const Config& args, const std::vector<std::filesystem::path>& directories);

/// Every different part of the model that a rank of `layout` has, by the lowest rank that has it; several may belong to
/// one directory where experts are cut finer than all else (etp > tp). Throws Error (exit 2) when etp * ep does not
/// divide the ranks of a stage.
std::vector<RankDirectory> model_parts(const Layout& layout);

/// One directory for each set of coordinates of which Megatron writes one, in the order of their lowest ranks, with
/// path, coordinates and rank. Throws Error (exit 2) when the layout cannot be.
std::vector<RankDirectory> rank_directories(const Layout& layout);

/// The directories mp_rank_* of an iteration, sorted. Throws Error for a name that is not of the form.
std::vector<std::filesystem::path> find_rank_directories(const std::filesystem::path& iteration);

/// How many layers each model chunk of each stage has: chunk c of stage p is number c * pp + p.
std::vector<int> layers_of_chunks(const Layout& layout, int layers);

}  // namespace tpx::formats::megatron
