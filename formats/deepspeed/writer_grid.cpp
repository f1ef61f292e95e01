// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/writer_grid.hpp"

#include "formats/state/rank_settings.hpp"
#include "lib/core/error.hpp"
#include "lib/core/name_list.hpp"

#include <algorithm>
#include <set>

namespace tpx::formats::deepspeed {
namespace {

using torch::Kind;
using torch::Value;

constexpr std::int64_t max_job_ranks = 1 << 20;

std::optional<int> degree(const ModelFile& model, std::string_view key) {
    const auto dims = model.root().find("checkpoint_parallel_dimensions");
    if (!dims || !dims->is(Kind::dict)) return std::nullopt;
    const auto value = dims->find(key);
    if (!value || !value->is(Kind::integer)) return std::nullopt;
    if (value->as_int() < 1 || value->as_int() > max_job_ranks)
        throw failure("{}: {} is {}", model.path.string(), key, value->as_int());
    return static_cast<int>(value->as_int());
}

/// The number of model-parallel ranks with files for data rank `dp`. Throws Error if files of some are missing.
int count_models(const StepFiles& files, int dp) {
    std::set<int> present;
    for (const auto& [ranks, path] : files.models)
        if (ranks.second == dp) present.insert(ranks.first);
    const int highest = files.models.rbegin()->first.first;
    const NameList absent =
        absent_numbers(present, 0, highest, [](int mp) { return fmt::format("model-parallel rank {}", mp); });
    if (absent.count() > 0)
        throw failure("{}: {}", files.models.begin()->second.parent_path().string(),
                      missing_files_text("model", absent));
    return highest + 1;
}

void read_degrees(WriterGrid& grid, int count) {
    const ModelFile& first = grid.models[0];
    int layer_ranks = 0;
    if (!grid.files.layers.empty()) {
        const int layer = grid.files.layers.begin()->first.first;
        while (grid.files.layers.contains({layer, layer_ranks})) ++layer_ranks;
    }
    grid.tp = degree(first, "tp_degree").value_or(layer_ranks > 0 ? layer_ranks : count);
    if (count % grid.tp != 0)
        throw failure("{}: {} model-parallel ranks cannot be split into tp={}", first.path.string(), count, grid.tp);
    grid.pp = count / grid.tp;
    if (const auto pp = degree(first, "pp_degree"); pp && *pp != grid.pp)
        throw failure("{}: tp={} and pp={} make {} model files, but there are {}", first.path.string(), grid.tp, *pp,
                      static_cast<std::int64_t>(*pp) * grid.tp, count);
    const auto dp = first.integer("dp_world_size");
    if (dp && (*dp < 1 || *dp > max_job_ranks)) throw failure("{}: dp_world_size is {}", first.path.string(), *dp);
    std::int64_t highest = grid.zero3 ? grid.files.models.rbegin()->first.second : 0;
    for (const auto& [key, path] : grid.files.optimizers) highest = std::max<std::int64_t>(highest, key.second);
    grid.dp = static_cast<int>(dp.value_or(highest + 1));
    if (highest >= grid.dp)
        throw failure("{}: dp_world_size is {}, but there is a file of data rank {}", first.path.string(), grid.dp,
                      highest);
}

/// The shape of each tensor rank's slice of parameter `name` on a stage.
std::vector<Shape> local_shapes(const WriterGrid& grid, int stage, const std::string& name,
                                const std::vector<std::map<std::string_view, const Shape*>>& known) {
    std::vector<Shape> locals;
    for (int t = 0; t < grid.tp; ++t) {
        const auto found = known[t].find(name);
        if (found == known[t].end())
            throw failure("{}: tensor '{}': is missing, though tensor rank 0 has it",
                          grid.model(stage, t).path.string(), name);
        locals.push_back(*found->second);
    }
    return locals;
}

void add_parameters(WriterGrid& grid, int stage, bool frozen) {
    std::vector<std::map<std::string_view, const Shape*>> known(grid.tp);
    for (int t = 0; t < grid.tp; ++t) {
        const auto add = [&](const ParameterGroup& group) {
            for (const auto& [name, shape] : group) known[t].emplace(name, &shape);
        };
        if (frozen)
            add(grid.model(stage, t).frozen);
        else
            std::ranges::for_each(grid.model(stage, t).groups, add);
    }
    for (int t = 1; t < grid.tp; ++t) {
        for (const auto& [name, shape] : known[t])
            if (!known[0].contains(name))
                throw failure("{}: tensor '{}': tensor rank 0 lacks it", grid.model(stage, t).path.string(), name);
    }
    const std::string& file = grid.model(stage, 0).path.string();
    for (const auto& [key, shape] : known[0]) {
        const std::string name{key};
        const auto other = grid.parameters.find(name);
        if (other != grid.parameters.end()) {
            if (other->second.stage == stage || !grid.info.pipeline_replicated(name))
                throw failure("{}: tensor '{}': stage {} contains it too, and it is not marked as tied", file, name,
                              other->second.stage);
            continue;
        }
        Parameter parameter{.stage = stage, .locals = local_shapes(grid, stage, name, known), .frozen = frozen};
        in_context([&] { return fmt::format("{}: tensor '{}'", file, name); },
                   [&] { parameter.slicing = grid.info.slicing(name, parameter.locals); });
        grid.parameters.emplace(name, std::move(parameter));
    }
}

/// Completes the aliases of tied parameters: DeepSpeed records them in the file of the first rank only, for its stage.
void share_aliases(WriterGrid& grid) {
    for (int rank = 0; rank < grid.tp * grid.pp; ++rank) {
        ModelFile& model = grid.models[rank];
        if (model.shared.empty()) model.shared = grid.model(rank / grid.tp, 0).shared;
    }
}

/// Finds frozen parameters, which ZeRO 1 does not record: entries of a module that are neither trained nor shared
/// parameters nor buffers.
void find_frozen(ModelFile& model) {
    const auto module = model.root().find("module");
    if (model.groups.empty() || !model.frozen.empty() || !module || module->is_none()) return;
    std::set<std::string, std::less<>> known{model.buffers.begin(), model.buffers.end()};
    for (const ParameterGroup& group : model.groups)
        for (const auto& [name, shape] : group) known.insert(name);
    for (const auto& [key, value] : module->entries()) {
        const std::string_view name = key.as_string();
        if (known.contains(name) || model.shared.contains(std::string{name}) || !value.is(Kind::object)) continue;
        if (const auto tensor = model.archive.tensor(value)) model.frozen.emplace_back(name, tensor->shape);
    }
}

void read_info(WriterGrid& grid) {
    const ModelFile& first = grid.models[0];
    const auto info = first.root().find("universal_checkpoint_info");
    if (!info || info->is_none()) {
        ParameterGroup all;
        for (const ModelFile& model : grid.models)
            for (const ParameterGroup& group : model.groups) all.insert(all.end(), group.begin(), group.end());
        auto known = grid.tp > 1 && !all.empty() ? UniversalInfo::of_megatron_names(all) : std::nullopt;
        if (!known) return;
        grid.info = std::move(*known);
        grid.notes.push_back(
            "there is no universal_checkpoint_info: slices of tensor ranks are joined as Megatron-DeepSpeed splits "
            "parameters with these names, and the vocabulary keeps its padding");
        return;
    }
    in_context([&] { return first.path.string(); }, [&] { grid.info = UniversalInfo{*info}; });
}

/// Collects the values that must be equal in the model files of all ranks.
void compare_settings(RankSettings& settings, const ModelFile& model) {
    for (const char* key : {"global_steps", "global_samples", "skipped_steps", "dp_world_size", "mp_world_size",
                            "ds_version", "lr_scheduler", "checkpoint_parallel_dimensions"})
        settings.add(model.path, key, model.root().find(key));
}

/// Throws Error if some files are left over from another step or run.
void check_settings(WriterGrid& grid) {
    RankSettings settings;
    for (const ModelFile& model : grid.models) compare_settings(settings, model);
    for (const auto& [key, path] : grid.files.models) {
        if (key.second <= 0) continue;
        const ModelFile model = read_model_file(path, grid.notes);
        compare_settings(settings, model);
        const ModelFile& first = grid.models.at(key.first);
        if (model.groups != first.groups)
            throw failure("{}: other parameters or shapes (param_shapes) than in {}", path.string(),
                          first.path.string());
    }
}

}  // namespace

WriterGrid read_writer_grid(const std::filesystem::path& folder) {
    WriterGrid grid{.files = list_step(folder)};
    const int dp = grid.files.models.begin()->first.second;
    grid.zero3 = dp >= 0;
    const int count = count_models(grid.files, grid.zero3 ? 0 : -1);
    for (int mp = 0; mp < count; ++mp)
        grid.models.push_back(read_model_file(grid.files.models.at({mp, grid.zero3 ? 0 : -1}), grid.notes));
    read_degrees(grid, count);
    read_info(grid);
    share_aliases(grid);
    for (ModelFile& model : grid.models)
        if (!grid.zero3 && (grid.tp == 1 || grid.info.given()))
            in_context([&] { return model.path.string(); }, [&] { find_frozen(model); });
    for (const auto& [key, path] : grid.files.models) {
        if ((key.second >= 0) != grid.zero3)
            throw failure("{}: is in the same folder as {}, which belongs to another ZeRO stage", path.string(),
                          grid.files.models.begin()->second.filename().string());
    }
    NameList absent;
    for (int mp = 0; grid.zero3 && mp < count; ++mp) {
        for (int d = 0; d < grid.dp; ++d)
            if (!grid.files.models.contains({mp, d})) absent.add(rank_name(mp, d));
    }
    if (absent.count() > 0) throw failure("{}: {}", folder.string(), missing_files_text("model", absent));
    check_settings(grid);
    for (int stage = 0; stage < grid.pp; ++stage) {
        add_parameters(grid, stage, false);
        add_parameters(grid, stage, true);
    }
    return grid;
}

}  // namespace tpx::formats::deepspeed
