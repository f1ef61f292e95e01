// SPDX-License-Identifier: Apache-2.0
#include "formats/checkpoint.hpp"

#include "formats/driver.hpp"
#include "formats/encodings/dcp/archive_forms.hpp"
#include "formats/encodings/dcp/locate.hpp"
#include "formats/recognize.hpp"
#include "formats/registry.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/name_list.hpp"
#include "lib/core/path.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>

namespace tpx::formats {
namespace {

/// "known formats: safetensors, dcp, ...": those of the registry.
std::string known_formats() {
    return fmt::format("known formats: {}", fmt::join(drivers() | std::views::transform(&Driver::name), ", "));
}

/// What was looked for at `path`, which is no checkpoint.
std::string why_none(const std::filesystem::path& path) {
    if (!path_is_file(path))
        return "found none of metadata.json, .metadata, latest, latest_checkpointed_iteration.txt, mp_rank_*, "
               "*.safetensors, *.bin, *.h5 or *.gguf";
    return size_of_file(path) == 0 ? "the file is empty" : "its first bytes are not those of a checkpoint's file";
}

/// Whether the folder contains the tensors of a distributed checkpoint without its index.
bool lacks_metadata(const std::filesystem::path& path) {
    if (!path_is_directory(path) || path_exists(path / ".metadata")) return false;
    return std::ranges::any_of(list_directory(path), [](const std::string& name) { return name.ends_with(".distcp"); });
}

/// The error for a path that is not a checkpoint; lists those `near` it, if any.
Error not_a_checkpoint(const std::filesystem::path& path, const std::vector<RecognizedPath>& near) {
    if (lacks_metadata(path))
        return failure(
            "{}: No such file or directory, but there are files *.distcp: the save did not finish, or the "
            "file was lost",
            (path / ".metadata").string());
    if (near.empty()) return failure("{}: not a checkpoint: {}; {}", path.string(), why_none(path), known_formats());
    NameList names;
    for (const RecognizedPath& one : near) names.add(fmt::format("{} ({})", one.path.string(), one.description));
    const bool is_empty = path_is_file(path) && size_of_file(path) == 0;
    return failure("{}: {}, but found nearby: {}", path.string(), is_empty ? "the file is empty" : "not a checkpoint",
                   names.text());
}

}  // namespace

Checkpoint open(const std::filesystem::path& path, MissingFiles missing) {
    const RecognizedPath found = recognize(path);
    if (found.description.empty()) throw not_a_checkpoint(path, checkpoints_near(path));
    if (found.description == torch_save_description)
        if (const auto around = checkpoints_around_files(found.path); !around.empty())
            throw not_a_checkpoint(path, around);
    if (found.format == nullptr)
        throw failure("{}: is {}; {}", found.path.string(), found.description, known_formats());
    return found.format->open(found.path, missing);
}

void locate(Checkpoint& checkpoint, std::span<const std::uint32_t> pieces) {
    if (!checkpoint.archives.empty()) locate_archives(checkpoint, pieces);
}

std::string answer_file_question(const std::filesystem::path& path, std::string_view question) {
    return answer_archive_question(path, question);
}

Draft draft(Format format, const Content& content) {
    std::vector<std::string> notes;  // ignored
    return draft(format, content, notes);
}

Draft draft(Format format, const Content& content, std::vector<std::string>& notes) {
    if (format->draft == nullptr) throw failure("{} can be read but not written; choose another format", name(format));
    return format->draft(content, notes);
}

}  // namespace tpx::formats
