// SPDX-License-Identifier: Apache-2.0
#include "formats/recognize.hpp"

#include "formats/companions.hpp"
#include "formats/registry.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"
#include "lib/core/unfinished.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <utility>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;

constexpr const char* orbax =
    "an Orbax checkpoint, whose arrays lie in TensorStore's own database: restore it with orbax.checkpoint and save "
    "the "
    "arrays as safetensors (safetensors.flax.save_file)";
constexpr const char* flax =
    "a Flax msgpack file: restore it with flax.serialization and save the arrays as safetensors "
    "(safetensors.flax.save_file)";
constexpr const char* nemo =
    "an archive of NeMo: extract it with tar -xf, and pass the folder that contains its weights";
constexpr const char* tensorflow =
    "a TensorFlow checkpoint: read it with tf.train.load_checkpoint and save the arrays as safetensors";

/// Whether `path` exists; false if it is in a folder that tpx may not enter. For signs of formats that tpx cannot read.
bool is_visible(const fs::path& path) {
    try {
        return path_exists(path);
    } catch (const Error&) {
        return false;
    }
}

/// Whether Orbax wrote `entry`: an item, a file of a step or a step's directory.
bool is_orbax(const fs::path& entry) {
    const std::string name = entry.filename().string();
    for (const char* sign : {"manifest.ocdbt", "_METADATA", "_CHECKPOINT_METADATA", "orbax.checkpoint"}) {
        if (name == sign || is_visible(entry / sign)) return true;
    }
    return name.find(".orbax-checkpoint-tmp") != name.npos || name.starts_with("ocdbt.process_");
}

/// Whether a file starts with a msgpack map, as Flax's files do.
bool is_msgpack(const fs::path& path) {
    if (!path_is_file(path) || size_of_file(path) == 0) return false;
    std::string start(1, '\0');
    read_at(open_file(path, O_RDONLY), 0, std::as_writable_bytes(std::span{start}), path);
    const auto byte = static_cast<unsigned char>(start[0]);
    return (byte >= 0x80 && byte <= 0x8f) || byte == 0xde || byte == 0xdf;
}

RecognizedPath recognize_file(const fs::path& path) {
    FileStart file{.path = path, .name = path.filename().string(), .bytes = {}, .size = size_of_file(path)};
    file.bytes.resize(std::min<std::uint64_t>(file.size, 16));
    read_at(open_file(path, O_RDONLY), 0, std::as_writable_bytes(std::span{file.bytes}), path);
    if (file.name.ends_with(".distcp") || file.name == ".metadata")
        return {path, nullptr, {}};  // a part of a DCP or torch_dist checkpoint
    for (const Format format : drivers_by_precedence()) {
        if (format->recognize_file == nullptr) continue;
        if (std::optional<RecognizedPath> found = format->recognize_file(file)) return *std::move(found);
    }
    if (file.name.ends_with(".nemo") && file.size > 0) return {path, nullptr, nemo};
    return {path, nullptr, file.name.ends_with(".msgpack") && is_msgpack(path) ? flax : ""};
}

/// The snapshot of `repository`, a folder of the Hugging Face Hub's cache with blobs/ and snapshots/: the one that
/// refs/main names or, without that file, the only one. Empty if `repository` is not such a folder or the choice is
/// ambiguous.
fs::path snapshot_of(const fs::path& repository) {
    const fs::path snapshots = repository / "snapshots";
    if (!path_is_directory(snapshots) || !path_is_directory(repository / "blobs")) return {};
    std::vector<std::string> names = list_directory(snapshots);
    std::erase_if(names, [&](const std::string& name) { return !path_is_directory(snapshots / name); });
    const fs::path main = repository / "refs" / "main";
    if (!path_exists(main)) return names.size() == 1 ? snapshots / names.front() : fs::path{};
    const std::string name = first_line(main);
    if (std::ranges::find(names, name) == names.end())
        throw failure("{}: names snapshot '{}', which is missing", main.string(), name);
    return snapshots / name;
}

bool ends_with_any(const std::string& name, std::span<const std::string_view> endings) {
    return std::ranges::any_of(endings, [&](std::string_view ending) { return name.ends_with(ending); });
}

/// Recognizes, by its files' names, a folder that no driver recognizes.
RecognizedPath recognize_by_names(const fs::path& folder) {
    static constexpr std::array<std::string_view, 4> saved{".bin.index.json", ".bin", ".pt", ".pth"};
    RecognizedPath found{folder, nullptr, {}};
    for (const std::string& name : list_directory(folder)) {
        if (name == trainer_arguments) continue;
        const fs::path entry = folder / name;
        if (is_orbax(entry)) return {folder, nullptr, orbax};
        if (found.description.empty() && (name.ends_with(".msgpack") || name == "checkpoint") && is_msgpack(entry))
            found.description = flax;
        if (found.description.empty() && name.find(".data-00000-of-") != name.npos) found.description = tensorflow;
        for (const Format format : drivers())
            if (ends_with_any(name, format->endings)) found = {folder, format, std::string{format->folder_description}};
        if (ends_with_any(name, saved)) found = {folder, nullptr, torch_save_description};
    }
    return found;
}

/// If `may_descend`, the folder may point to another one, but that one not to a third.
RecognizedPath recognize_directory(const fs::path& path, bool may_descend) {
    for (const Format format : drivers_by_precedence()) {
        if (may_descend && format->checkpoint_of_root != nullptr)
            if (const fs::path inner = format->checkpoint_of_root(path); !inner.empty())
                return recognize_directory(inner, false);
        if (format->recognize_folder == nullptr) continue;
        if (std::optional<RecognizedPath> found = format->recognize_folder(path)) return *std::move(found);
    }
    RecognizedPath found = recognize_by_names(path);
    if (found.format != nullptr || !may_descend) return found;
    const fs::path snapshot = snapshot_of(path);
    return snapshot.empty() ? found : recognize_directory(snapshot, false);
}

/// The number at the end of a name such as step-20 or iter_0000010.
std::optional<std::uint64_t> trailing_number(const fs::path& path) {
    const std::string name = path.filename().string();
    const std::string digits = name.substr(name.find_last_not_of("0123456789") + 1);
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return error == std::errc{} ? std::optional{number} : std::nullopt;
}

/// The checkpoint in the folder `path`; none if it cannot be read or is incomplete.
std::optional<RecognizedPath> checkpoint_at(const fs::path& path) {
    try {
        if (!path_is_directory(path) || find_unfinished(path)) return std::nullopt;
        RecognizedPath found = recognize_directory(path, true);
        if (!found.format) return std::nullopt;
        found.path = path.filename() == ".." ? real_path(path) : path;
        return found;
    } catch (const Error&) {
        return std::nullopt;
    }
}

std::vector<RecognizedPath> checkpoints_below(const fs::path& folder) {
    constexpr std::size_t most_entries = 200;  // a shared file system may have millions
    std::vector<RecognizedPath> found;
    std::vector<std::string> names;
    try {
        if (path_is_directory(folder)) names = list_directory(folder);
    } catch (const Error&) {
        return found;
    }
    const bool is_hub = std::ranges::find(names, "snapshots") != names.end();
    using Numbered = std::pair<std::uint64_t, const std::string*>;
    std::vector<Numbered> highest_first;
    for (const std::string& name : names) highest_first.emplace_back(trailing_number(name).value_or(0), &name);
    std::ranges::stable_sort(highest_first, std::greater{}, &Numbered::first);
    if (highest_first.size() > most_entries) highest_first.resize(most_entries);
    for (const auto& [number, entry] : highest_first)
        if (std::optional<RecognizedPath> there = checkpoint_at(folder / *entry)) found.push_back(std::move(*there));
    return found.empty() && is_hub ? checkpoints_below(folder / "snapshots") : found;
}

/// The checkpoint in `folder` or, if that is none, in the folder above it.
std::optional<RecognizedPath> checkpoint_above(const fs::path& folder) {
    std::optional<RecognizedPath> found = checkpoint_at(folder);
    return found ? std::move(found) : checkpoint_at(folder / "..");
}

}  // namespace

std::vector<RecognizedPath> checkpoints_around_files(const fs::path& folder) {
    std::vector<RecognizedPath> around = checkpoints_below(folder);
    if (!around.empty()) return around;  // these files contain the remaining state
    if (auto above = checkpoint_above(folder / "..")) around.push_back(std::move(*above));
    for (const std::string& name : list_directory(folder)) {
        try {
            if (name == trainer_arguments || !path_is_file(folder / name)) continue;
            RecognizedPath file = recognize_file(folder / name);
            if (file.format != nullptr && file.path == folder / name) around.push_back(std::move(file));
        } catch (const Error&) {  // it cannot be read
        }
    }
    return around;
}

std::string first_line(const fs::path& path) {
    constexpr std::uint64_t longest = 4096;
    constexpr const char* blank = " \t\r\n";
    const std::string text = read_file(path, longest);
    const auto begin = text.find_first_not_of(blank);
    if (begin == text.npos) return {};
    const std::string line = text.substr(begin, text.find_first_of("\r\n", begin) - begin);
    return line.substr(0, line.find_last_not_of(blank) + 1);
}

RecognizedPath recognize(const fs::path& path) {
    const PathKind kind = path_kind(path);
    if (kind == PathKind::absent) throw system_failure(path, ENOENT);
    if (const auto unfinished = find_unfinished(path))
        throw failure("{}: {}; not a checkpoint", unfinished->folder.string(), unfinished->what);
    return kind == PathKind::directory ? recognize_directory(path, true) : recognize_file(path);
}

std::vector<RecognizedPath> checkpoints_near(const fs::path& path) {
    if (std::vector<RecognizedPath> found = checkpoints_below(path); !found.empty()) return found;
    const fs::path named = path.has_filename() ? path : path.parent_path();  // without a trailing slash
    const fs::path parent = named.has_parent_path() ? named.parent_path() : fs::path{"."};
    if (std::optional<RecognizedPath> found = checkpoint_above(path_is_directory(path) ? path / ".." : parent))
        return {std::move(*found)};
    return trailing_number(named) ? checkpoints_below(parent) : std::vector<RecognizedPath>{};
}

}  // namespace tpx::formats
