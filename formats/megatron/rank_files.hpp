// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/megatron/rank_names.hpp"
#include "lib/core/box.hpp"
#include "lib/core/dtype.hpp"
#include "lib/layout/layout.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// A tensor of one rank, as its file has it.
struct RankTensor {
    std::string name;                  ///< layers and experts count from 0 in each model chunk
    std::string_view role = "weight";  ///< or master, exp_avg, exp_avg_sq
    int chunk = 0;                     ///< model chunk of the rank: "model0", "model1", ...
    DType dtype = DType::f32;
    Shape shape;
    Strides strides;
    std::uint32_t file = 0;
    std::uint64_t offset = 0;  ///< of element 0, in bytes from the start of the file
};

/// What one directory mp_rank_TT[_PPP][_EEE] holds.
struct RankDirectory {
    std::filesystem::path path;  ///< relative to the iteration's directory
    int tp = 0;
    int pp = 0;
    int ep = 0;
    int etp = 0;
    int rank = 0;                     ///< the lowest with these coordinates
    std::vector<RankTensor> tensors;  ///< weights in the file's order, then optimizer state
    std::vector<int> layers;          ///< how many each model chunk has
};

/// The rank files of Megatron's legacy format before they are put together: that takes a family's rules.
struct RankFiles {
    Layout layout;
    megatron::Spelling spelling;
    std::vector<RankDirectory> directories;
    bool plain_optimizer = false;
    bool distributed_optimizer = false;
};

}  // namespace tpx::formats
