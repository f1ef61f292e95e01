// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/model_draft.hpp"
#include "formats/deepspeed/optimizer.hpp"
#include "formats/deepspeed/step_job.hpp"
#include "formats/driver.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/error.hpp"

#include <map>
#include <set>

namespace tpx::formats {
namespace {

using namespace deepspeed;
using torch::Document;
namespace fs = std::filesystem;

/// "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", with the prefix of the old files.
std::string optimizer_file(const StepJob& job, int mp, int d) {
    const std::string old = job.universal ? (training_dtype(job.grid.models[0]) == DType::bf16 ? "bf16_zero" : "zero")
                                          : job.grid.files.optimizers.begin()->second.filename().string();
    return fmt::format("{}zero_pp_rank_{}_mp_rank_{:02}_optim_states.pt", old.substr(0, old.find("zero")), d, mp);
}

class OptimizerDraft {
public:
    explicit OptimizerDraft(StepJob& job) : job_{job} { find_cuts(); }

    void add(int stage, int t, int d) {
        const StoredOptimizer& origin = job_.origins[job_.old_stage(stage)];
        const std::vector<RankGroupPart> groups = job_.rank_groups(stage, t, d);
        Document document;
        const ModelFile& model = job_.old_model(stage, t);
        const NewOptimizer made = in_context(
            [&] { return origin.path.string(); },
            [&] {
                return job_.zero3()
                           ? subgrouped_optimizer(origin, model, groups, all_groups(stage), job_.layout.dp, document)
                           : partitioned_optimizer(origin, model, groups, job_.layout.zero, document);
            });
        const int mp = stage * job_.layout.tp + t;
        const StepDraft::Placed placed = job_.draft.add(job_.folder / optimizer_file(job_, mp, d), made.root,
                                                        &origin.archive, origin.path, made.small);
        for (const NewFlat& flat : made.flats)
            job_.zero3() ? fill_subgroup(groups[flat.group], flat, placed, stage, t, d)
                         : fill_partition(groups[flat.group], flat, placed, stage, t, d);
    }

private:
    /// Partitions cut copies of a parameter in different places on each stage. Cuts all copies in all of these places,
    /// so that their pieces are equal.
    void find_cuts() {
        std::map<std::string, int> stages;
        for (int stage = 0; stage < job_.layout.pp; ++stage)
            for (const TargetGroup& group : job_.target.groups(stage))
                for (const std::string& name : group.names) ++stages[name];
        for (int stage = 0; stage < job_.layout.pp && job_.layout.pp > 1; ++stage)
            for (int t = 0; t < job_.layout.tp; ++t)
                for (const RankGroupPart& group : job_.rank_groups(stage, t, 0)) add_cuts(group, stages);
    }

    void add_cuts(const RankGroupPart& group, const std::map<std::string, int>& stages) {
        for (std::size_t p = 0; p < group.parameters.size(); ++p) {
            const auto& [name, shape] = group.parameters[p];
            if (stages.at(name) < 2) continue;
            for (int k = 1; k < group.layout.partitions; ++k) {
                const Index at = k * group.layout.part - group.layout.starts[p];
                if (at > 0 && at < volume(shape)) cuts_[name].insert(at);
            }
        }
    }

    std::vector<const StoredGroup*> all_groups(int stage) const {
        std::vector<const StoredGroup*> all;
        for (const TargetGroup& group : job_.target.groups(stage)) all.push_back(group.like);
        return all;
    }

    void fill_partition(const RankGroupPart& group, const NewFlat& flat, const StepDraft::Placed& placed, int stage,
                        int t, int d) {
        const Interval held = group.layout.partition(group.partition);
        for (std::size_t p = 0; p < group.parameters.size(); ++p) {
            const auto& [name, shape] = group.parameters[p];
            const Interval own{group.layout.starts[p], group.layout.starts[p] + volume(shape)};
            const Interval here = intersect(own, held);
            const std::string global =
                global_expert_name(name, d % group.expert_ranks, local_experts(group.parameters, name));
            put(flat, placed, name, global, here.begin - held.begin, shift(here, -own.begin), t,
                job_.rank(stage, t, d));
        }
    }

    void fill_subgroup(const RankGroupPart& group, const NewFlat& flat, const StepDraft::Placed& placed, int stage,
                       int t, int d) {
        Index at = 0;
        for (const auto& [name, shape] : group.parameters) {
            const Index part = part_of_parameter(volume(shape), job_.layout.dp);
            put(flat, placed, name, name, at, intersect({d * part, (d + 1) * part}, {0, volume(shape)}), t,
                job_.rank(stage, t, d));
            at += part;
        }
    }

    /// Puts elements `range` of a rank's slice of parameter `name`, which is `global` in the whole model, at position
    /// `at` of a vector.
    void put(const NewFlat& flat, const StepDraft::Placed& placed, const std::string& name, const std::string& global,
             Index at, Interval range, int t, int rank) {
        if (range.empty()) return;
        const std::string tensor = fmt::format("{}/{}", global, flat.state);
        const DType dtype = job_.draft[job_.draft.tensor(tensor)].dtype;
        if (dtype != flat.dtype)
            throw failure("tensor '{}': is {}, but others of its group are {}", tensor, tpx::name(dtype),
                          tpx::name(flat.dtype));
        std::set<Index> ends{range.end};
        if (const auto cuts = cuts_.find(name); cuts != cuts_.end())
            ends.insert(cuts->second.begin(), cuts->second.end());
        const std::uint64_t start = placed.storages.at(flat.key).offset;
        for (Index begin = range.begin; const Index end : ends) {
            if (end <= begin || end > range.end) continue;
            const auto before = static_cast<std::uint64_t>(at + begin - range.begin);
            job_.add_pieces(tensor, name, t, placed.file, start + before * std::uint64_t(itemsize(dtype)), {begin, end},
                            rank);
            begin = end;
        }
    }

    StepJob& job_;
    std::map<std::string, std::set<Index>> cuts_;  // cuts in parameters that are on several stages
};

}  // namespace

Draft draft_deepspeed(const Content& content, std::vector<std::string>& notes) {
    if (!content.source->format->has_param_groups)
        throw failure("DeepSpeed's own files can only be made from a DeepSpeed checkpoint, which has their settings");
    StepJob job{content, find_deepspeed(content.source->catalogue.directory)};
    ModelDraft models{job};
    OptimizerDraft optimizers{job};
    for (int stage = 0; stage < job.layout.pp; ++stage) {
        for (int t = 0; t < job.layout.tp; ++t) {
            for (int d = 0; d < (job.zero3() ? job.layout.dp : 1); ++d) models.add(stage, t, d);
            for (int d = 0; d < job.layout.dp; ++d) optimizers.add(stage, t, d);
        }
    }
    models.add_layers();
    models.add_experts();
    job.draft.add_text("latest", job.folder.string());
    notes.insert(notes.end(), job.target.notes().begin(), job.target.notes().end());
    return job.draft.finish();
}

}  // namespace tpx::formats
