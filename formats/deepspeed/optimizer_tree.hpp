// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/groups.hpp"
#include "formats/deepspeed/origin.hpp"
#include "formats/encodings/torch/archive.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tpx::formats::deepspeed {

/// Kinds of state that a group has for each of its elements, "fp32" among them, with their types.
using FlatStates = std::vector<std::pair<std::string, DType>>;

/// A group of parameters as one rank of a new step keeps it; under ZeRO 3, a sub-group.
struct RankGroup {
    Group parameters;
    const OriginGroup* like = nullptr;
    FlatStates states;
    GroupLayout layout;       ///< of ZeRO 1 and 2
    std::vector<Index> gaps;  ///< of ZeRO 1 and 2, behind each parameter; empty: none
    int partition = 0;        ///< of ZeRO 1 and 2, the rank's
    int expert_ranks = 1;
    Index length = 0;  ///< of ZeRO 3: elements of the rank
};

/// A flat vector of a new optimizer file.
struct NewFlat {
    std::size_t group = 0;
    std::string state;  ///< "fp32", "exp_avg", ...
    std::string key;    ///< of its storage
    DType dtype = DType::f32;
};

/// The tree of a new optimizer file.
struct NewOptimizer {
    torch::Value root;
    std::vector<NewFlat> flats;
    std::map<std::string, std::string> small;  ///< bytes of small storages by key
};

/// The optimizer file of a rank of ZeRO 1 or 2, `stage`: what `origin` keeps beside its partitions, and new ones.
NewOptimizer partitioned(const Origin& origin, const ModelFile& model, const std::vector<RankGroup>& groups, int stage,
                         torch::Document& document);

/// The same for ZeRO 3 over `dp` ranks: `groups` are the sub-groups of the groups `all`, in their order.
NewOptimizer subgrouped(const Origin& origin, const ModelFile& model, const std::vector<RankGroup>& groups,
                        const std::vector<const OriginGroup*>& all, int dp, torch::Document& document);

/// A scalar as an optimizer keeps it; a tensor's bytes go to `small`, its storage has `key`.
torch::Value scalar_value(const Scalar& scalar, const std::string& key, std::map<std::string, std::string>& small,
                          torch::Document& document);

/// The entries of `origin` that are no partitions and tell of none: loss scale, clipping, and what else there is.
std::vector<torch::Entry> kept_entries(const Origin& origin);

/// The settings of the groups, in their order, with numbers of sub-groups `numbers` a group.
torch::Value group_settings(const std::vector<const OriginGroup*>& groups, const std::vector<int>& expert_ranks,
                            const std::vector<std::size_t>& numbers, torch::Document& document);

}  // namespace tpx::formats::deepspeed
