// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/step_job.hpp"

#include "formats/deepspeed/catalogue_builder.hpp"
#include "formats/deepspeed/optimizer.hpp"
#include "formats/deepspeed/regroup.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <variant>

namespace tpx::formats::deepspeed {
namespace {

using torch::Kind;

std::vector<StoredOptimizer> read_origins(const WriterGrid& grid, bool universal) {
    if (!universal && grid.files.optimizers.empty()) throw failure("there is no ZeRO state to reshard");
    std::vector<StoredOptimizer> origins;
    for (int stage = 0; stage < grid.pp; ++stage) origins.push_back(read_stored_optimizer(grid, stage, universal));
    return origins;
}

int zero_of(const WriterGrid& grid) {
    if (grid.zero3) return 3;
    const auto stage = grid.models[0].zero_setting("stage");
    return stage && stage->is(Kind::integer) && stage->as_int() == 2 ? 2 : 1;
}

Layout checked(Layout layout, const WriterGrid& grid, const std::vector<StoredOptimizer>& origins) {
    if (layout.cp > 1 || layout.vpp > 1 || layout.fsdp > 1 || layout.etp > 0)
        throw Error{Exit::usage, "layout: DeepSpeed supports only the keys tp, pp, dp, ep and zero"};
    if (layout.zero == 0) layout.zero = zero_of(grid);
    if (layout.zero > 3) throw Error{Exit::usage, "layout: zero={}: DeepSpeed has stages 1 to 3", layout.zero};
    const bool changes = layout.zero != zero_of(grid);
    for (const StoredOptimizer& origin : origins) {
        if (changes && !origin.staged)
            throw Error{Exit::usage, "layout: BF16_Optimizer's state cannot become that of zero={}", layout.zero};
        for (const StoredGroup& group : origin.groups)
            if (changes && group.expert_ranks > 1 && layout.zero == 3)
                throw Error{Exit::usage, "layout: zero=3 does not support DeepSpeed's MoE layers"};
    }
    if (layout.zero == 3 && layout.pp > 1) throw Error{Exit::usage, "layout: zero=3 does not support pipelines"};
    if (layout.zero > 1 && changes && (layout.pp > 1 || !grid.files.layers.empty()))
        throw Error{Exit::usage,
                    "layout: zero={} is impossible with a PipelineModule: DeepSpeed's pipelines support only zero=1",
                    layout.zero};
    return layout;
}

/// "--set make_vocab_size_divisible_by=N".
Index vocabulary_unit(const Content& content) {
    const auto found = content.args.find("make_vocab_size_divisible_by");
    if (found == content.args.end()) return 0;
    const auto* number = std::get_if<std::int64_t>(&found->second);
    return number != nullptr && *number > 0 ? *number : 0;
}

/// The gap after each parameter, which aligns the next one to 16 bytes in the training dtype; 0 after the last.
std::vector<Index> alignment_gaps(const ParameterGroup& group, DType training) {
    const Index unit = 16 / itemsize(training);
    std::vector<Index> gaps;
    for (const Index numel : numels(group)) gaps.push_back((unit - numel % unit) % unit);
    if (!gaps.empty()) gaps.back() = 0;
    return gaps;
}

Index subgroup_size(const ModelFile& model) {
    constexpr Index usual = 1'000'000'000;
    const auto given = model.zero_setting("sub_group_size");
    if (given && given->is(Kind::integer)) return given->as_int();
    if (given && given->is(Kind::real)) return static_cast<Index>(std::clamp(given->as_real(), 0.0, 1e18));
    return usual;
}

/// Checks that the old sub-groups end where cut_subgroups() ends them: their ends depend on the number of ranks, and
/// the new ones are cut in the same way.
void check_subgroups(const WriterGrid& grid, const std::vector<StoredOptimizer>& origins) {
    for (int stage = 0; grid.zero3 && stage < grid.pp; ++stage) {
        const ModelFile& model = grid.model(stage, 0);
        std::size_t next = 0;
        for (const StoredGroup& group : origins[stage].groups) {
            ParameterGroup parameters;
            for (std::size_t k = next; parameters.size() < group.names.size(); ++k)
                parameters.insert(parameters.end(), model.groups[k].begin(), model.groups[k].end());
            for (const ParameterGroup& part : cut_subgroups(parameters, subgroup_size(model), grid.dp)) {
                if (part.empty()) continue;
                if (next == model.groups.size() || model.groups[next] != part)
                    throw failure("{}: sub-group {} does not match sub_group_size {}", origins[stage].path.string(),
                                  next, subgroup_size(model));
                ++next;
            }
        }
    }
}

/// Throws Error if the engine's order of parameters, which flat partitions depend on, is unknown.
void check_order(const WriterGrid& grid) {
    if (const auto from = grid.models[0].root().find(made_from_key))
        throw Error{
            Exit::usage,
            "the order of parameters in DeepSpeed's flat buffers is unknown, because this universal checkpoint was "
            "converted from {} format; let DeepSpeed load it (\"checkpoint\": {{\"load_universal\": true}})",
            from->as_string()};
}

}  // namespace

StepJob::StepJob(const Content& content, const DeepSpeedStep& source)
    : universal{source.universal},
      grid{read_writer_grid(source.step)},
      origins{read_origins(grid, universal)},
      layout{checked(content.layout, grid, origins)},
      old_zero{zero_of(grid)},
      target{grid, origins, layout, vocabulary_unit(content)},
      draft{content} {
    check_order(grid);
    check_subgroups(grid, origins);
    std::string name = source.step.filename().string();
    constexpr std::string_view ending = "_universal";
    if (universal && name.ends_with(ending) && name.size() > ending.size()) name.resize(name.size() - ending.size());
    folder = name;
}

std::vector<RankGroupPart> StepJob::rank_groups(int stage, int t, int d) const {
    std::vector<RankGroupPart> result;
    const ModelFile& model = old_model(stage, t);
    for (const TargetGroup& group : target.groups(stage)) {
        RankGroupPart made{.like = group.like, .expert_ranks = group.expert_ranks};
        made.parameters = target.local_group(group, t);
        if (!group.names.empty())
            made.states =
                draft.states(global_expert_name(group.names[0], 0, local_experts(made.parameters, group.names[0])));
        if (zero3()) {
            for (ParameterGroup& part : cut_subgroups(made.parameters, subgroup_size(model), layout.dp)) {
                RankGroupPart sub = made;
                sub.length = 0;
                for (const Index numel : numels(part)) sub.length += part_of_parameter(numel, layout.dp);
                sub.parameters = std::move(part);
                if (!sub.parameters.empty()) result.push_back(std::move(sub));
            }
            continue;
        }
        const int partitions = layout.dp / group.expert_ranks;
        if (origins[0].round_robin) made.parameters = round_robin_order(made.parameters, partitions);
        if (origins[0].aligned) made.gaps = alignment_gaps(made.parameters, training_dtype(model));
        made.layout = lay_out_group(numels(made.parameters), made.gaps, partitions);
        made.partition = d / group.expert_ranks;
        result.push_back(std::move(made));
    }
    return result;
}

void StepJob::add_pieces(const std::string& name, const std::string& parameter, int t, std::uint32_t file,
                         std::uint64_t offset, Interval range, int rank) {
    if (range.empty()) return;
    const TargetParameter& slices = target.parameter(parameter);
    const std::uint32_t tensor = draft.tensor(name);
    append_range(draft.pieces(), {.tensor = tensor, .file = file, .offset = offset, .rank = rank},
                 itemsize(draft[tensor].dtype), range, slices.locals[t], slices.slicing.blocks[t]);
}

}  // namespace tpx::formats::deepspeed
