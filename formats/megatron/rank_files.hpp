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

/// The order of the rows of queries, keys and values in one fused tensor. by_head: for each head its query, key and
/// value, as today; parts_first: all queries, all keys, all values (checkpoint_version 0); parts_last: for each row of
/// each head the row of the query, of the key and of the value (checkpoint_version 1.0).
enum class RowOrder { by_head, parts_first, parts_last };

/// A tensor of one rank, as stored in the rank's file.
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

/// The content of one directory mp_rank_TT[_PPP][_EEE].
struct RankDirectory {
    std::filesystem::path path;  ///< relative to the iteration's directory
    int tp = 0;
    int pp = 0;
    int ep = 0;
    int etp = 0;
    int rank = 0;                            ///< the lowest rank with these coordinates
    std::vector<RankTensor> tensors;         ///< weights in the file's order, then optimizer state
    std::vector<int> layers;                 ///< the number of layers of each model chunk
    std::vector<std::string> extra_states;   ///< of TransformerEngine, with content (FP8 scales)
    bool has_distributed_optimizer = false;  ///< whether distrib_optim.pt is there
    bool old_names = false;  ///< the files use names of Megatron-LM before Megatron-core; `tensors` do not
};

/// The rank files of Megatron's legacy format before assemble_ranks(), which needs a family's rules.
struct RankFiles {
    Layout layout;
    megatron::Spelling spelling;
    std::vector<RankDirectory> directories;
    bool plain_optimizer = false;
    bool distributed_optimizer = false;
};

}  // namespace tpx::formats
