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

/// The number of a pipeline layer at the start of a parameter's name, "4.mlp.weight"; unset for other names.
std::optional<int> layer_of(std::string_view name);

/// Whether a parameter belongs to a module that several layers of a pipeline share.
bool is_tied(std::string_view name);

/// A layer of a pipeline that has parameters.
struct PipelineLayer {
    Index weight = 0;               ///< elements of its parameters
    std::set<std::string> content;  ///< its parameters' names without the number, with their shapes
};

/// How DeepSpeed's PipelineModule assigns layers to stages.
class StageRule {
public:
    /// What stages have equal numbers of: layers of the most frequent kind (as with partition_method type:...),
    /// parameters, or all `total` layers, including function layers.
    enum class Kind { type, parameters, uniform };

    StageRule(Kind kind, int total) : kind_{kind}, total_{total} {}
    std::string name() const;

    std::map<int, int> stages(const std::map<int, PipelineLayer>& layers, int count) const;

private:
    Kind kind_;
    int total_;
};

/// The first of DeepSpeed's rules that assigns `layers` to `count` stages as in `known`; unset if none does. With a
/// single stage, every rule does.
std::optional<StageRule> find_stage_rule(const std::map<int, PipelineLayer>& layers, const std::map<int, int>& known,
                                         int count);

/// Splits layers with these weights into `count` parts. Returns the first layer of each part, and the end. Minimizes
/// the difference between the heaviest and the lightest part; among equal solutions, prefers longer parts before the
/// last.
std::vector<int> balanced_parts(std::span<const Index> weights, int count);

/// The numbers of the layers of the most frequent kind: the transformer blocks.
std::vector<int> blocks_of(const std::map<int, PipelineLayer>& layers);

}  // namespace tpx::formats::deepspeed
