// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/interval.hpp"

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::formats::deepspeed {

/// The number of a pipeline's layer at the start of a parameter's name, "4.mlp.weight"; nothing for other names.
std::optional<int> layer_of(std::string_view name);

/// Whether a parameter is of a module that several layers of a pipeline share.
bool is_tied(std::string_view name);

/// A layer of a pipeline that has parameters.
struct PipelineLayer {
    Index weight = 0;               ///< elements of its parameters
    std::set<std::string> content;  ///< its parameters' names without the number, with their shapes
};

/// How DeepSpeed's PipelineModule deals layers out to stages: the stage of each layer in `layers`, by number.
class StageRule {
public:
    /// Equal numbers of the layers that occur most (as partition_method type:... does), or of parameters, or of all
    /// `total` layers, function layers included.
    enum class Kind { type, parameters, uniform };

    StageRule(Kind kind, int total) : kind_{kind}, total_{total} {}
    std::string name() const;

    std::map<int, int> stages(const std::map<int, PipelineLayer>& layers, int count) const;

private:
    Kind kind_;
    int total_;
};

/// The first of DeepSpeed's rules that deals `layers` out to `count` stages as `known` tells; nothing when none does. A
/// single stage is explained by all.
std::optional<StageRule> rule_of(const std::map<int, PipelineLayer>& layers, const std::map<int, int>& known,
                                 int count);

/// The first layer of each of `count` parts, and the end, of layers of such weights: the sums of the heaviest and the
/// lightest part differ as little as can be, and of equal solutions the parts before the last are longest.
std::vector<int> balanced_parts(std::span<const Index> weights, int count);

/// Numbers of the layers that are like most others: the blocks of a transformer.
std::vector<int> blocks_of(const std::map<int, PipelineLayer>& layers);

}  // namespace tpx::formats::deepspeed
