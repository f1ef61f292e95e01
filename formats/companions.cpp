// SPDX-License-Identifier: Apache-2.0
#include "formats/companions.hpp"

#include "formats/config_file.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <algorithm>
#include <array>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t largest_companion = std::uintmax_t{256} << 20;
constexpr std::uint64_t largest_config = std::uint64_t{16} << 20;

/// Whether `name` is that of weights, of an index of weights or of tpx's own files.
bool no_companion(const std::string& name) {
    constexpr std::array endings{".safetensors", ".weights.json", ".index.json", ".bin",  ".pt",   ".pth",   ".ckpt",
                                 ".distcp",      ".h5",           ".msgpack",    ".onnx", ".gguf", ".keras", ".npz"};
    return name.starts_with('.') || name.starts_with("tpx.") ||
           std::ranges::any_of(endings, [&](const char* ending) { return name.ends_with(ending); });
}

bool below(const fs::path& path, const fs::path& directory) {
    return std::mismatch(directory.begin(), directory.end(), path.begin(), path.end()).first == directory.end();
}

/// Whether `path`, links followed, lies in `directory`, or in the cache HUB/blobs that a HUB/snapshots/ID is made of.
bool stays_inside(const fs::path& path, const fs::path& directory) {
    std::error_code ignored;
    const fs::path real = fs::canonical(path, ignored);
    const fs::path home = fs::canonical(directory, ignored);
    if (real.empty() || home.empty()) return false;
    const fs::path snapshots = home.parent_path();
    return below(real, home) || (snapshots.filename() == "snapshots" && below(real, snapshots.parent_path() / "blobs"));
}

}  // namespace

std::vector<fs::path> find_companions(const fs::path& directory) {
    std::vector<fs::path> companions;
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
        const fs::path name = entry.path().filename();
        if (no_companion(name.string()) || !entry.is_regular_file(ignored)) continue;
        if (entry.file_size(ignored) > largest_companion || !stays_inside(entry.path(), directory)) continue;
        companions.push_back(name);
    }
    std::ranges::sort(companions);
    return companions;
}

void read_config(const fs::path& directory, Checkpoint& checkpoint) {
    const fs::path path = directory / "config.json";
    std::error_code ignored;
    if (!fs::exists(path, ignored)) return;
    std::string text = read_file(path, largest_config);
    checkpoint.config = in_context([&] { return path.string(); }, [&] { return parse_config_json(text); });
    checkpoint.config_json = std::move(text);
}

void read_companions(Checkpoint& checkpoint, std::initializer_list<std::string_view> own) {
    const fs::path& directory = checkpoint.catalogue.directory;
    checkpoint.companions = find_companions(directory);
    std::erase_if(checkpoint.companions,
                  [&](const fs::path& name) { return std::ranges::find(own, name.string()) != own.end(); });
    if (std::ranges::find(checkpoint.companions, "config.json") == checkpoint.companions.end()) return;
    Checkpoint file;
    read_config(directory, file);
    checkpoint.config_json = std::move(file.config_json);
}

void copy_companions(const Checkpoint& source, const fs::path& folder, Draft& draft) {
    for (const fs::path& name : source.companions) {
        if (std::ranges::find(draft.files, folder / name, &FileEntry::path) != draft.files.end()) continue;
        const fs::path from = source.catalogue.directory / name;
        const std::uint64_t length = size_of_file(from);
        const auto file = static_cast<std::uint32_t>(draft.files.size());
        draft.files.push_back({folder / name, length});
        draft.copies.push_back({from, 0, length, file, 0});
    }
}

}  // namespace tpx::formats
