// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/megatron/rank_names.hpp"
#include "lib/core/box.hpp"
#include "lib/core/dtype.hpp"
#include "lib/layout/layout.hpp"
#include "lib/state/role.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats {

/// How the rows of queries, keys and values of one fused tensor follow each other: for each head a query, a key and a
/// value, as today; all queries, all keys, all values (checkpoint_version 0); for each head and each of its rows a
/// query's, a key's and a value's (1.0).
enum class RowOrder { by_head, parts_first, parts_last };

/// A tensor of one rank, as its file has it.
struct RankTensor {
    std::string name;          ///< layers and experts count from 0 in each model chunk
    Role role = Role::weight;  ///< or master, exp_avg, exp_avg_sq
    int chunk = 0;             ///< model chunk of the rank: "model0", "model1", ...
    DType dtype = DType::f32;
    Shape shape;
    Strides strides;
    std::uint32_t file = 0;
    std::uint64_t offset = 0;  ///< of element 0, in bytes from the start of the file
    RowOrder rows = RowOrder::by_head;
};

/// What one directory mp_rank_TT[_PPP][_EEE] holds.
struct RankDirectory {
    std::filesystem::path path;  ///< relative to the iteration's directory
    int tp = 0;
    int pp = 0;
    int ep = 0;
    int etp = 0;
    int rank = 0;                           ///< the lowest with these coordinates
    std::vector<RankTensor> tensors;        ///< weights in the file's order, then optimizer state
    std::vector<int> layers;                ///< how many each model chunk has
    std::vector<std::string> extra_states;  ///< of TransformerEngine, with content: scales of FP8
    bool old_names = false;  ///< those of Megatron-LM before Megatron-core, which `tensors` no longer have
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
