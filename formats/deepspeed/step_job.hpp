// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/deepspeed/deepspeed.hpp"
#include "formats/deepspeed/step_draft.hpp"
#include "formats/deepspeed/target.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace tpx::formats::deepspeed {

/// A new step of DeepSpeed's at work: what the old one is, and what the ranks of the new one shall have of it.
struct StepJob {
    /// Throws Error (exit 2) for an invalid layout.
    StepJob(const Content& content, const DeepSpeedStep& source);

    bool universal = false;  ///< the old one is
    Grid grid;
    std::vector<Origin> origins;  ///< by old pipeline stage
    Layout layout;                ///< the new one, with its ZeRO stage
    int old_zero = 1;
    TargetStep target;
    std::filesystem::path folder;
    StepDraft draft;

    bool zero3() const { return layout.zero == 3; }

    /// The old pipeline stage whose files those of a new one are made of, and likewise for tensor ranks.
    int old_stage(int stage) const { return layout.pp == grid.pp ? stage : stage == 0 ? 0 : grid.pp - 1; }
    int old_tensor_rank(int t) const { return layout.tp == grid.tp ? t : 0; }
    const ModelFile& old_model(int stage, int t) const { return grid.model(old_stage(stage), old_tensor_rank(t)); }
    int rank(int stage, int t, int d) const { return (stage * layout.dp + d) * layout.tp + t; }

    /// The groups of a new rank, cut into sub-groups under ZeRO 3.
    std::vector<RankGroup> rank_groups(int stage, int t, int d) const;

    /// Adds the pieces of elements `range` of tensor rank `t`'s slice of parameter `parameter`, which tensor `name` is
    /// of, that come to lie from `offset` of a file on.
    void add_pieces(const std::string& name, const std::string& parameter, int t, std::uint32_t file,
                    std::uint64_t offset, Interval range, int rank);
};

}  // namespace tpx::formats::deepspeed
