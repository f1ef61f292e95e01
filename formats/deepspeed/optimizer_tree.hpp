// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/groups.hpp"
#include "formats/deepspeed/model_file.hpp"
#include "formats/deepspeed/regroup.hpp"
#include "formats/torch/archive.hpp"

#include <string>
#include <vector>

namespace tpx::formats::deepspeed {

/// A flat vector of a new optimizer file.
struct NewFlat {
    std::size_t group = 0;
    std::string state;  ///< "fp32", "exp_avg", ...
    std::string key;    ///< of its storage
    DType dtype = DType::f32;
};

/// The tree of a new optimizer file, made of that of an old one.
struct NewOptimizer {
    torch::Value root;
    std::vector<NewFlat> flats;
};

/// What a rank of ZeRO 1 or 2 has to say of its partitions.
struct PartitionView {
    std::vector<Group> groups;
    std::vector<GroupLayout> layouts;  ///< of each group
    std::vector<int> partition;        ///< the rank's, of each group
    int stage = 1;
};

/// The optimizer file of a rank of ZeRO 1 or 2: the tree `old` with partitions and all that tells of them anew.
NewOptimizer repartition(const torch::Archive& old, const PartitionView& view, torch::Document& document);

/// The same for ZeRO 3, where sub-group g has `lengths[g]` elements a rank, as `cut`
/// tells.
NewOptimizer repartition3(const torch::Archive& old, const std::vector<Index>& lengths, const Subgroups& cut, int dp,
                          torch::Document& document);

}  // namespace tpx::formats::deepspeed
