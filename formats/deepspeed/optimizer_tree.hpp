// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/groups.hpp"
#include "formats/deepspeed/stored_optimizer.hpp"
#include "formats/encodings/torch/archive.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tpx::formats::deepspeed {

/// The kinds of per-element state of a group, including "fp32", with their types.
using FlatStates = std::vector<std::pair<std::string, DType>>;

/// One rank's part of a parameter group in a new step; under ZeRO 3, of a sub-group.
struct RankGroupPart {
    ParameterGroup parameters;
    const StoredGroup* like = nullptr;
    FlatStates states;
    GroupLayout layout;       ///< of ZeRO 1 and 2
    std::vector<Index> gaps;  ///< of ZeRO 1 and 2, after each parameter; empty: none
    int partition = 0;        ///< of ZeRO 1 and 2, the rank's partition
    int expert_ranks = 1;
    Index length = 0;  ///< of ZeRO 3, the rank's elements
};

/// A flat vector of a new optimizer file.
struct NewFlat {
    std::size_t group = 0;
    std::string state;  ///< "fp32", "exp_avg", ...
    std::string key;    ///< of its storage in the archive
    DType dtype = DType::f32;
};

/// The tree of a new optimizer file.
struct NewOptimizer {
    torch::Value root;
    std::vector<NewFlat> flats;
    std::map<std::string, std::string> small;  ///< bytes of small storages by key
};

/// The optimizer file of a rank under ZeRO 1 or 2 (`stage`): new partitions, and all other entries of `origin`.
NewOptimizer partitioned_optimizer(const StoredOptimizer& origin, const ModelFile& model,
                                   const std::vector<RankGroupPart>& groups, int stage, torch::Document& document);

/// The same for ZeRO 3 on `dp` ranks: `groups` are the sub-groups of the groups in `all`, in order.
NewOptimizer subgrouped_optimizer(const StoredOptimizer& origin, const ModelFile& model,
                                  const std::vector<RankGroupPart>& groups, const std::vector<const StoredGroup*>& all,
                                  int dp, torch::Document& document);

/// A scalar as an optimizer stores it. If it is a tensor, its storage has `key` and its bytes go to `small`.
torch::Value scalar_value(const Scalar& scalar, const std::string& key, std::map<std::string, std::string>& small,
                          torch::Document& document);

/// The entries of `origin` that neither are nor describe partitions, such as loss scale and clipping.
std::vector<torch::Entry> unpartitioned_entries(const StoredOptimizer& origin);

/// The settings of the groups, in order. Group g has `numbers[g]` sub-groups, which are numbered consecutively.
torch::Value group_settings(const std::vector<const StoredGroup*>& groups, const std::vector<int>& expert_ranks,
                            const std::vector<std::size_t>& numbers, torch::Document& document);

}  // namespace tpx::formats::deepspeed
