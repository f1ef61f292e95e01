// SPDX-License-Identifier: Apache-2.0
#include "formats/torch/driver.hpp"

#include "formats/encodings/torch/text.hpp"
#include "formats/recognize.hpp"
#include "formats/source.hpp"
#include "formats/torch/bin_files.hpp"
#include "formats/torch/torch_file.hpp"
#include "formats/torch/training_roles.hpp"
#include "lib/core/path.hpp"

#include <array>

namespace tpx::formats {
namespace {

constexpr const char* bin_files = "a Hugging Face checkpoint of torch.save files";
constexpr const char* saved_file = "a torch.save file";

std::optional<RecognizedPath> recognize_archive(const FileStart& file) {
    if (file.name == "pytorch_model.bin.index.json")
        return RecognizedPath{file.path.parent_path(), &torch_driver, bin_files};
    if (file.bytes.starts_with("PK\x03\x04")) return RecognizedPath{file.path, &torch_driver, saved_file};
    return std::nullopt;
}

std::optional<RecognizedPath> recognize_bin_folder(const std::filesystem::path& folder) {
    return holds_bin_files(folder) ? std::optional{RecognizedPath{folder, &torch_driver, bin_files}} : std::nullopt;
}

/// Excludes .msgpack files: a msgpack map, as in Flax's files, may start like a pickle.
std::optional<RecognizedPath> recognize_stream(const FileStart& file) {
    const std::string& start = file.bytes;
    if (start.size() > 1 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5 && !file.name.ends_with(".msgpack"))
        return RecognizedPath{file.path, &torch_legacy_driver, saved_file};
    return std::nullopt;
}

Checkpoint open_archive_or_folder(const std::filesystem::path& path, MissingFiles) {
    return path_is_directory(path) ? open_bin_files(path) : open_torch_file(&torch_driver, path);
}

constexpr std::array<std::string_view, 1> torch_aliases{"pt"};

/// Adds a note about tensor subclasses, which other formats cannot store.
void note_dropped_classes(const Source& source, const Target& target, bool renames, std::vector<std::string>& notes) {
    if (target.format->values == ValueStorage::one_file && !renames) return;
    std::string note = subclass_note(torch::Archive::open(source.checkpoint.catalogue.path(0)));
    if (!note.empty()) notes.push_back(std::move(note));
}

std::optional<Adam> adam_of_torch(const Source& source) { return adam_of_file(source.checkpoint.catalogue.path(0)); }

}  // namespace

constinit const Driver torch_driver{
    .name = "torch",
    .title = "a `torch.save` file (zip archive)",
    .framework = "PyTorch",
    .aliases = torch_aliases,
    .written = WritableFrom::any,
    .knows_optimizer = true,
    .keeps_values = true,
    .is_one_file = true,
    .file_name = draft_file_name,
    .allows_other_files = false,
    .values = ValueStorage::one_file,
    .may_wrap_names = true,
    .keeps_masters = true,
    .precedence = 90,
    .recognize_file = recognize_archive,
    .recognize_folder = recognize_bin_folder,
    .open = open_archive_or_folder,
    .reject_name = torch::reject_name,
    .draft = [](const Content& content, std::vector<std::string>&) { return draft_torch(&torch_driver, content); },
    .adam = adam_of_torch,
    .find_views = find_views,
    .note_dropped = note_dropped_classes,
};

constinit const Driver torch_legacy_driver{
    .name = "torch-legacy",
    .title = "a `torch.save` file of PyTorch before 1.6 (stream)",
    .framework = "PyTorch",
    .written = WritableFrom::any,
    .knows_optimizer = true,
    .keeps_values = true,
    .is_one_file = true,
    .file_name = draft_file_name,
    .allows_other_files = false,
    .values = ValueStorage::one_file,
    .may_wrap_names = true,
    .keeps_masters = true,
    .precedence = 100,
    .recognize_file = recognize_stream,
    .open = [](const std::filesystem::path& path, MissingFiles) { return open_torch_file(&torch_legacy_driver, path); },
    .reject_name = torch::reject_name,
    .draft = [](const Content& content,
                std::vector<std::string>&) { return draft_torch(&torch_legacy_driver, content); },
    .adam = adam_of_torch,
    .find_views = find_views,
    .note_dropped = note_dropped_classes,
};

}  // namespace tpx::formats
