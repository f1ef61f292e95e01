// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/conversion_draft.hpp"

#include "formats/adapters/adapter_config.hpp"
#include "formats/adapters/adapter_settings.hpp"
#include "formats/companions.hpp"
#include "formats/driver.hpp"
#include "formats/settings/bare_floats.hpp"
#include "formats/settings/config_file.hpp"
#include "formats/settings/model_config.hpp"
#include "formats/state/roles.hpp"
#include "lib/layout/adapter_family.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tpx::formats {
namespace {

/// The config.json of the new checkpoint. DCP also gets one, although PyTorch does not need it: without it the
/// number of attention heads in the weights would be unknown.
std::string target_config_json(const Source& source, const Target& target, ModelChoice::File file,
                               const ExpressedState& expressed, const Config& config) {
    if (file == ModelChoice::File::none) return "";
    if (file == ModelChoice::File::made) return make_config_json(expressed, config);
    const std::string own = source_config_json(source, target);
    const auto was = most_common_dtype(source.reading, source.checkpoint.catalogue.tensors);
    const auto is = most_common_dtype(expressed.reading, expressed.tensors);
    return is && was != is ? with_dtype(own, *is) : own;
}

/// Adds a small file to the draft; replaces a copy at the same path.
void put_file(Draft& draft, const std::filesystem::path& path, std::string text) {
    auto file = std::ranges::find(draft.files, path, &FileEntry::path);
    if (file == draft.files.end()) file = draft.files.insert(file, FileEntry{path, 0});
    const auto number = static_cast<std::uint32_t>(file - draft.files.begin());
    std::erase_if(draft.copies, [&](const Draft::Copy& copy) { return copy.file == number; });
    file->size = text.size();
    draft.fixed.push_back({number, 0, std::move(text)});
}

/// Adds a note about companions other than config.json, which are not held in memory.
void note_not_held(const Checkpoint& checkpoint, std::vector<std::string>& notes) {
    std::vector<std::string> names;
    for (const std::filesystem::path& name : checkpoint.companions)
        if (name != "config.json") names.push_back(name.string());
    constexpr std::size_t shown = 5;
    const std::size_t more = names.size() - std::min(names.size(), shown);
    if (names.empty()) return;
    notes.push_back(fmt::format("not held in memory: {}{}",
                                fmt::join(std::span{names}.first(names.size() - more), ", "),
                                more > 0 ? fmt::format(" and {} more", more) : ""));
}

/// The folder for companions: beside the weights, which Megatron stores in the iteration's folder.
std::filesystem::path folder_of(const Draft& draft) {
    for (const FileEntry& file : draft.files) {
        if (file.path.begin()->string().starts_with("iter_")) return *file.path.begin();
    }
    return {};
}

}  // namespace

Draft make_draft(const Source& source, const Target& target, const ModelChoice& choice, const Config& config,
                 Conversion& out) {
    const Dialect* dialect = choice.dialect;
    if (const auto make_args = target.format->make_args)
        out.content.args =
            make_args(source, target, out.expressed, dialect != nullptr, out.content.adam.has_value(), config);
    out.content.reading = &out.expressed.reading;
    out.content.cast = target.dtype;
    Draft made = draft(target.format, out.content, out.notes);
    out.content.reading = nullptr;
    if (target.format->is_one_file) return made;
    const std::filesystem::path folder = folder_of(made);
    copy_companions(source.checkpoint, folder, made, out.content.held ? "config.json" : "");
    if (out.content.held) note_not_held(source.checkpoint, out.notes);
    if (dialect && source.reading.family && is_adapter_family(*source.reading.family)) {
        std::string settings = adapter_config_for(source, target.format, out.content.tensors, config, out.notes);
        if (!settings.empty()) put_file(made, folder / adapter_config_name, std::move(settings));
        if (target.format->is_hugging_face) return made;  // a config.json beside it would be the base model's
    }
    // Megatron has args; config.json is only for settings that args cannot express.
    if (target.format->has_args && source.checkpoint.config_json.empty()) return made;
    std::string config_json = target_config_json(source, target, choice.config_json, out.expressed, config);
    if (!config_json.empty()) put_file(made, folder / "config.json", restore_bare_floats(std::move(config_json)));
    return made;
}

}  // namespace tpx::formats
