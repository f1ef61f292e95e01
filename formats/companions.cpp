// SPDX-License-Identifier: Apache-2.0
#include "formats/companions.hpp"

#include "formats/settings/bare_floats.hpp"
#include "formats/settings/config_file.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/file_answers.hpp"
#include "lib/core/path.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t largest_companion = std::uint64_t{256} << 20;

/// Whether `name` is the name of weights, of an index of weights or of one of tpx's own files.
bool is_never_companion(const std::string& name) {
    constexpr std::array endings{".safetensors", ".weights.json", ".index.json", ".bin",  ".pt",   ".pth",   ".ckpt",
                                 ".distcp",      ".h5",           ".msgpack",    ".onnx", ".gguf", ".keras", ".npz"};
    if (name == trainer_arguments) return false;
    return name.starts_with('.') || name.starts_with("tpx.") ||
           std::ranges::any_of(endings, [&](const char* ending) { return name.ends_with(ending); });
}

bool is_under(const fs::path& path, const fs::path& directory) {
    return std::mismatch(directory.begin(), directory.end(), path.begin(), path.end()).first == directory.end();
}

}  // namespace

bool stays_inside(const fs::path& path, const fs::path& directory) {
    const fs::path real = real_path(path);
    const fs::path home = real_path(directory.empty() ? "." : directory);
    const fs::path snapshots = home.parent_path();
    return is_under(real, home) ||
           (snapshots.filename() == "snapshots" && is_under(real, snapshots.parent_path() / "blobs"));
}

namespace {

/// Whether the folder `name` contains tensors of the checkpoint, or, as DCP's "sharded" does, another copy of them.
bool holds_weights(const std::string& name, const Checkpoint& checkpoint) {
    return name == "sharded" || std::ranges::any_of(checkpoint.catalogue.files,
                                                    [&](const FileEntry& file) { return *file.path.begin() == name; });
}

/// Does not use size_of_file(), which would record the file as part of the checkpoint (ReadRecord): any file may lie
/// beside it.
std::uint64_t length_of(const fs::path& path) {
    return answered(FileAnswers::Question::length, path, [&] {
        struct stat status {};
        if (::stat(path.c_str(), &status) != 0) throw system_failure(path, errno);
        return static_cast<std::uint64_t>(status.st_size);
    });
}

/// Why an entry cannot be carried over; empty if it can.
std::string obstacle(const fs::path& path, PathKind kind, const fs::path& directory) {
    if (kind == PathKind::absent) return "a link that leads nowhere";
    if (kind == PathKind::other) return "not a regular file";
    if (kind == PathKind::directory) return "a folder";
    if (!stays_inside(path, directory)) return "a link that leads out of the checkpoint";
    const std::uint64_t size = length_of(path);
    if (size <= largest_companion) return {};
    return fmt::format("{} bytes, more than {}", size, largest_companion);
}

}  // namespace

void find_companions(const fs::path& directory, Checkpoint& checkpoint, std::initializer_list<std::string_view> own) {
    constexpr std::size_t most_named = 5;
    std::vector<std::string> left;
    checkpoint.companions.clear();
    for (const std::string& name : list_directory(directory.empty() ? "." : directory)) {
        const fs::path path = directory / name;
        if (is_never_companion(name) || std::ranges::find(own, name) != own.end()) continue;
        const PathKind kind = path_kind(path);
        if (kind == PathKind::directory && (own.size() > 0 || holds_weights(name, checkpoint))) continue;
        if (kind == PathKind::absent && !entry_exists(path)) continue;  // removed meanwhile
        const std::string cause = obstacle(path, kind, directory);
        if (cause.empty())
            checkpoint.companions.emplace_back(name);
        else
            left.push_back(fmt::format("'{}' ({})", name, cause));
    }
    if (left.empty()) return;
    const std::size_t named = std::min(left.size(), most_named);
    std::string note =
        fmt::format("{}{}", not_carried_over, fmt::join(left.begin(), left.begin() + static_cast<long>(named), ", "));
    if (named < left.size()) note += fmt::format(" and {} more", left.size() - named);
    checkpoint.notes.push_back(note);
}

void read_config(const fs::path& directory, Checkpoint& checkpoint) {
    const fs::path path = directory / "config.json";
    if (!path_exists(path)) return;
    std::string text = quote_bare_floats(read_file(path, max_config_bytes));
    checkpoint.config = in_context([&] { return path.string(); }, [&] { return parse_config_json(text); });
    checkpoint.config_json = std::move(text);
}

void read_companions(Checkpoint& checkpoint, std::initializer_list<std::string_view> own) {
    const fs::path& directory = checkpoint.catalogue.directory;
    find_companions(directory, checkpoint, own);
    if (std::ranges::find(checkpoint.companions, "config.json") == checkpoint.companions.end()) return;
    Checkpoint file;
    read_config(directory, file);
    checkpoint.config_json = std::move(file.config_json);
}

void copy_companions(const Checkpoint& source, const fs::path& folder, Draft& draft, const fs::path& only) {
    for (const fs::path& name : source.companions) {
        if (!only.empty() && name != only) continue;
        if (std::ranges::find(draft.files, folder / name, &FileEntry::path) != draft.files.end()) continue;
        const fs::path from = source.catalogue.directory / name;
        const std::uint64_t length = size_of_file(from);
        const auto file = static_cast<std::uint32_t>(draft.files.size());
        draft.files.push_back({folder / name, length});
        draft.copies.push_back({from, 0, length, file, 0});
    }
}

}  // namespace tpx::formats
