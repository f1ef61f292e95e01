// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/deepspeed.hpp"
#include "formats/deepspeed/step_draft.hpp"
#include "formats/deepspeed/target_step.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace tpx::formats::deepspeed {

/// A conversion to a new DeepSpeed step: the old step, and what each rank of the new one will have.
struct StepJob {
    /// Throws Error (exit 2) for an invalid layout.
    StepJob(const Content& content, const DeepSpeedStep& source);

    bool universal = false;  ///< whether the old step is universal
    WriterGrid grid;
    std::vector<StoredOptimizer> origins;  ///< by old pipeline stage
    Layout layout;                         ///< the new layout, with its ZeRO stage
    int old_zero = 1;
    TargetStep target;
    std::filesystem::path folder;
    StepDraft draft;

    bool zero3() const { return layout.zero == 3; }

    /// The old pipeline stage whose files the files of a new stage are based on; old_tensor_rank() likewise.
    int old_stage(int stage) const { return layout.pp == grid.pp ? stage : stage == 0 ? 0 : grid.pp - 1; }
    int old_tensor_rank(int t) const { return layout.tp == grid.tp ? t : 0; }
    const ModelFile& old_model(int stage, int t) const { return grid.model(old_stage(stage), old_tensor_rank(t)); }
    int rank(int stage, int t, int d) const { return (stage * layout.dp + d) * layout.tp + t; }

    /// The groups of a new rank, cut into sub-groups under ZeRO 3.
    std::vector<RankGroupPart> rank_groups(int stage, int t, int d) const;

    /// Adds pieces for elements `range` of tensor rank `t`'s slice of `parameter`, to which tensor `name` belongs. They
    /// are stored at `offset` of a file.
    void add_pieces(const std::string& name, const std::string& parameter, int t, std::uint32_t file,
                    std::uint64_t offset, Interval range, int rank);
};

}  // namespace tpx::formats::deepspeed
