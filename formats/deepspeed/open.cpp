// SPDX-License-Identifier: Apache-2.0
#include "formats/companions.hpp"
#include "formats/deepspeed/deepspeed.hpp"
#include "formats/deepspeed/driver.hpp"
#include "formats/deepspeed/frozen_parameters.hpp"
#include "formats/deepspeed/optimizer.hpp"
#include "formats/deepspeed/step_files.hpp"
#include "formats/deepspeed/universal.hpp"
#include "formats/deepspeed/weights.hpp"
#include "formats/folder_files.hpp"
#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"

#include <algorithm>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;
using namespace deepspeed;
using torch::Kind;

bool is_universal(const fs::path& folder) {
    return any_file_below(folder / "zero", [](const fs::path& file) { return file.filename() == "fp32.pt"; });
}

bool holds_step(const fs::path& folder) {
    return std::ranges::any_of(list_directory(folder),
                               [](const std::string& name) { return parse_file_name(name).has_value(); });
}

/// The folder that text file `pointer` in `root` names; empty if the file is missing or invalid.
fs::path pointed_folder(const fs::path& root, const char* pointer) {
    constexpr std::uint64_t longest = 4096;
    constexpr const char* blank = " \t\r\n";
    if (!path_is_file(root / pointer)) return {};
    std::string text = read_file(root / pointer, longest);
    text.erase(text.find_last_not_of(blank) + 1);
    if (text.empty() || text.find('/') != text.npos || text == "." || text == "..") return {};
    return root / text;
}

Layout layout_of(const WriterGrid& grid, bool universal) {
    if (universal) return {};
    Layout layout{.tp = grid.tp, .pp = grid.pp, .dp = grid.dp, .ep = grid.ep};
    const auto stage = grid.models[0].zero_setting("stage");
    if (grid.zero3)
        layout.zero = 3;
    else if (!grid.files.optimizers.empty())
        layout.zero = stage && stage->is(Kind::integer) && stage->as_int() == 2 ? 2 : 1;
    return layout;
}

/// Whether the model file contains optimizer state, as in runs without ZeRO, where parameters are numbered.
bool has_optimizer(const ModelFile& model) {
    const auto optimizer = model.root().find("optimizer");
    return optimizer && !optimizer->is_none();
}

/// Whether the whole checkpoint is one model file, which then reads like a training script's torch.save file.
bool is_single_file(const WriterGrid& grid) {
    return grid.models.size() == 1 && grid.files.optimizers.empty() && !grid.zero3 && grid.models[0].groups.empty() &&
           has_optimizer(grid.models[0]);
}

Checkpoint open_single_file(const WriterGrid& grid) {
    const ModelFile& model = grid.models[0];
    const Format saved = format_by_name("torch").value();
    Checkpoint checkpoint = saved->open(model.path, MissingFiles::refused);
    checkpoint.iteration = model.integer("global_steps");
    checkpoint.notes.insert(checkpoint.notes.end(), grid.notes.begin(), grid.notes.end());
    checkpoint.notes.push_back(
        fmt::format("a DeepSpeed run without ZeRO; reading its torch.save file {}", model.path.filename().string()));
    return checkpoint;
}

void check_optimizer(const WriterGrid& grid) {
    const ModelFile& model = grid.models[0];
    if (has_optimizer(model))
        throw failure(
            "{}: the optimizer state of a run without ZeRO, but with tensor or pipeline parallelism or experts, cannot "
            "be "
            "read",
            model.path.string());
    if (grid.zero3 || !model.groups.empty())
        throw failure("{}: has parameters partitioned by ZeRO, but there is no *_optim_states.pt", model.path.string());
}

void note_copies(WriterGrid& grid) {
    std::size_t copies = 0;
    for (int mp = 0; mp < static_cast<int>(grid.models.size()); mp += grid.tp) {
        for (const ParameterGroup& group : grid.models[mp].groups)
            copies += std::ranges::count_if(
                group, [&](const auto& entry) { return grid.parameters.at(entry.first).stage != mp / grid.tp; });
    }
    if (copies > 0)
        grid.notes.push_back(fmt::format(
            "ignored copies of tied parameters on later pipeline stages ({}); using those of the first stage", copies));
}

/// Whether the checkpoint was saved with exclude_frozen_parameters: then frozen_param_shapes is None, otherwise a dict
/// (ZeRO 2 and 3).
bool leaves_frozen_out(const WriterGrid& grid) {
    const auto stage = grid.models[0].zero_setting("stage");
    const auto shapes = grid.models[0].root().find("frozen_param_shapes");
    return stage && stage->is(Kind::integer) && stage->as_int() >= 2 && shapes && shapes->is_none();
}

/// Adds files without tensors, which also belong to the checkpoint.
void add_files(const WriterGrid& grid, CatalogueBuilder& builder) {
    for (const auto& [key, path] : grid.files.models) builder.file(path);
    const fs::path state = grid.models[0].path.parent_path() / "zero/optimizer_state.pt";
    if (path_exists(state)) builder.file(state);
}

}  // namespace

DeepSpeedStep find_deepspeed(const fs::path& path) {
    if (is_universal(path)) return {path, path, true, ""};
    if (holds_step(path)) return {path, path, false, ""};
    const fs::path latest = pointed_folder(path, "latest");
    const fs::path universal = pointed_folder(path, "latest_universal");
    const bool is_latest = !latest.empty() && path_is_directory(latest) && (holds_step(latest) || universal.empty());
    if (is_latest) return {path, latest, is_universal(latest), universal.empty() ? "" : universal.filename().string()};
    if (!universal.empty() && path_is_directory(universal)) return {path, universal, is_universal(universal), ""};
    return {};
}

Checkpoint open_deepspeed(const fs::path& path) {
    const DeepSpeedStep found = find_deepspeed(path);
    if (found.step.empty()) throw failure("{}: contains no DeepSpeed step", path.string());
    Checkpoint checkpoint{.format = found.universal ? &universal_driver : &deepspeed_driver};
    CatalogueBuilder builder{found.directory};
    WriterGrid grid = read_writer_grid(found.step);
    if (!found.universal && is_single_file(grid)) return open_single_file(grid);
    add_weights(grid, builder);
    if (found.universal)
        add_universal(grid, found.step, builder);
    else if (grid.files.optimizers.empty())
        check_optimizer(grid);
    else
        add_optimizer(grid, builder);
    note_copies(grid);
    add_files(grid, builder);
    checkpoint.roles = builder.roles();
    checkpoint.catalogue = builder.finish();
    in_context([&] { return found.step.string(); }, [&] { find_holes(checkpoint.catalogue); });
    checkpoint.layout = layout_of(grid, found.universal);
    checkpoint.iteration = grid.models[0].integer("global_steps");
    for (const ModelFile& model : grid.models) checkpoint.shared.insert(model.shared.begin(), model.shared.end());
    checkpoint.notes = grid.notes;
    if (!found.universal && leaves_frozen_out(grid))
        checkpoint.notes.push_back(
            fmt::format("{}: frozen parameters, if there were any, are missing", frozen_excluded_note));
    if (!found.other.empty())
        checkpoint.notes.push_back(
            fmt::format("ignored the universal checkpoint {}; pass its folder to read it", found.other));
    read_config(found.directory, checkpoint);
    find_companions(found.directory, checkpoint, {"latest", "latest_universal", "zero_to_fp32.py", "zero_to_torch.py"});
    find_training_files(found.directory, checkpoint);
    return checkpoint;
}

}  // namespace tpx::formats
