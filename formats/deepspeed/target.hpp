// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/groups.hpp"
#include "formats/deepspeed/origin.hpp"
#include "lib/layout/layout.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tpx::formats::deepspeed {

/// A parameter as the ranks of a new layout have it.
struct TargetParameter {
    Slicing slicing;            ///< each rank's blocks, replicas included
    std::vector<Shape> locals;  ///< by tensor rank
};

/// A group of parameters of a new pipeline stage.
struct TargetGroup {
    std::vector<std::string> names;  ///< in the order of flattening; experts by their names on expert rank 0
    const OriginGroup* like = nullptr;
    int expert_ranks = 1;
};

/// What every rank of a new step has of the parameters of an old one.
class TargetStep {
public:
    /// `vocabulary_unit`: what the padded rows of a vocabulary are a multiple of, times tp; 0: what the old ones tell.
    /// Throws Error (exit 2) for layouts that cannot be.
    TargetStep(const Grid& grid, const std::vector<Origin>& origins, const Layout& layout, Index vocabulary_unit);

    const Layout& layout() const { return layout_; }
    const std::vector<TargetGroup>& groups(int stage) const { return stages_[stage]; }
    const TargetParameter& parameter(const std::string& name) const { return parameters_.at(name); }
    const TargetParameter* find(const std::string& name) const;

    /// The names of `group` with the shapes that tensor rank `t` has.
    Group local_group(const TargetGroup& group, int t) const;

    /// The stage of a parameter, or of a layer of a pipeline; copies on later stages do not count.
    int stage_of(const std::string& name) const;
    std::optional<Index> padded_rows() const { return rows_; }  ///< of a vocabulary, if one is known
    const std::vector<std::string>& notes() const { return notes_; }

private:
    void join_groups(const Grid& grid, const std::vector<Origin>& origins);
    void stage_layers(const Grid& grid, const std::vector<Origin>& origins);
    void find_rows(const Grid& grid, Index unit);
    void cut(const Grid& grid, const std::string& name, const Parameter& parameter);
    void spread_experts(TargetGroup& group);
    void add_experts(const std::string& layer, const std::vector<std::string>& of_first, Index all, int ranks,
                     std::vector<std::string>& names);

    Layout layout_;
    std::vector<std::vector<TargetGroup>> stages_;
    std::map<std::string, TargetParameter> parameters_;
    std::map<int, int> stage_of_layer_;
    std::optional<Index> rows_;
    std::vector<std::string> notes_;
};

}  // namespace tpx::formats::deepspeed
