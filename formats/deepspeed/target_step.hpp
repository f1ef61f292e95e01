// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/groups.hpp"
#include "formats/deepspeed/stored_optimizer.hpp"
#include "lib/layout/layout.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tpx::formats::deepspeed {

/// A parameter's slices in a new layout.
struct TargetParameter {
    Slicing slicing;            ///< each rank's blocks, including replicas
    std::vector<Shape> locals;  ///< by tensor rank
};

/// A parameter group of a new pipeline stage.
struct TargetGroup {
    std::vector<std::string> names;  ///< in flattening order; experts by their names on expert rank 0
    const StoredGroup* like = nullptr;
    int expert_ranks = 1;
};

/// How a vocabulary was padded.
struct OldRows {
    Index vocabulary = 0;
    Index padded = 0;  ///< rows with padding
    int tp = 1;
    Index unit = 0;  ///< recorded make_vocab_size_divisible_by; 0: none
};

/// The rows of a vocabulary with its padding.
struct VocabularyRows {
    Index rows = 0;
    Index unit = 0;  ///< the rows are a multiple of this times tp; 0: unchanged rows
};

/// The rows of the vocabulary on `tp` tensor-parallel ranks. They follow from the recorded unit if that agrees with the
/// old padding; otherwise they are the old rows if tp divides them. In both cases, a change of tp and back gives the
/// old rows. In all other cases, the unit is guessed from the old padding.
VocabularyRows new_vocabulary_rows(const OldRows& old, int tp);

/// What each rank of a new step has of the parameters of an old step.
class TargetStep {
public:
    /// The padded rows of a vocabulary are a multiple of `vocabulary_unit` times tp; 0: what the old step implies.
    /// Throws Error (exit 2) for impossible layouts.
    TargetStep(const WriterGrid& grid, const std::vector<StoredOptimizer>& origins, const Layout& layout,
               Index vocabulary_unit);

    const Layout& layout() const { return layout_; }
    const std::vector<TargetGroup>& groups(int stage) const { return stages_[stage]; }
    const TargetParameter& parameter(const std::string& name) const { return parameters_.at(name); }
    const TargetParameter* find(const std::string& name) const;

    /// The names of `group` with the shapes of tensor rank `t`'s slices.
    ParameterGroup local_group(const TargetGroup& group, int t) const;

    /// The stage of a parameter, by its pipeline layer; for copies on several stages, the first.
    int stage_of(const std::string& name) const;
    std::optional<Index> padded_rows() const { return rows_; }  ///< of a vocabulary, if one is known
    const std::vector<std::string>& notes() const { return notes_; }

private:
    void join_groups(const WriterGrid& grid, const std::vector<StoredOptimizer>& origins);
    void stage_layers(const WriterGrid& grid, const std::vector<StoredOptimizer>& origins);
    void find_rows(const WriterGrid& grid, Index unit);
    void cut(const WriterGrid& grid, const std::string& name, const Parameter& parameter);
    void add_note(std::string note);
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
