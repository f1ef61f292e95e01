// SPDX-License-Identifier: Apache-2.0
#include "formats/files/stores_check.hpp"

#include "formats/files/digests_file.hpp"
#include "formats/files/merged_stores.hpp"
#include "lib/core/digest.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"

#include <fcntl.h>

#include <algorithm>
#include <map>
#include <set>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t compared_whole = std::uint64_t{16} << 20;
constexpr std::uint64_t sample_size = std::uint64_t{64} << 10;
constexpr std::uint64_t samples = 16;

std::string read_part(const Fd& fd, std::uint64_t offset, std::uint64_t size, const fs::path& path) {
    std::string bytes(size, '\0');
    read_at(fd, offset, std::as_writable_bytes(std::span{bytes}), path);
    return bytes;
}

/// Whether two files are the same as far as they are compared.
bool same(const fs::path& a, const fs::path& b) {
    const std::uint64_t size = size_of_file(a);
    if (size != size_of_file(b)) return false;
    const Fd in_a = open_file(a, O_RDONLY);
    const Fd in_b = open_file(b, O_RDONLY);
    if (size <= compared_whole) return read_part(in_a, 0, size, a) == read_part(in_b, 0, size, b);
    for (std::uint64_t k = 0; k < samples; ++k) {
        const std::uint64_t offset = (size - sample_size) / (samples - 1) * k;
        const std::uint64_t begin = k + 1 == samples ? size - sample_size : offset;
        if (read_part(in_a, begin, sample_size, a) != read_part(in_b, begin, sample_size, b)) return false;
    }
    return true;
}

RecordedDigests recorded(const fs::path& store, const fs::path& folder) {
    if (auto record = read_digests(store / folder)) return *std::move(record);
    throw failure(
        "{}: is missing, and the checkpoint records neither an iteration nor a save ID, so that the stores may hold "
        "different saves; run tpx verify --write on the checkpoint before it is distributed",
        (store / folder / digests_file_name).lexically_normal().string());
}

std::string digest_of(const fs::path& path, const std::atomic<bool>* cancelled) {
    const auto size = static_cast<Index>(size_of_file(path));
    const Fd fd = open_file(path, O_RDONLY);
    Digest digest;
    constexpr Index step = Index{4} << 20;
    for (Index begin = 0; begin < size; begin += step) {
        if (cancelled != nullptr && *cancelled) throw failure("{}: stopped on request", path.string());
        const Index end = std::min(size, begin + step);
        const std::string bytes =
            read_part(fd, static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(end - begin), path);
        add(digest, Shape{size}, 1, Box{{begin, end}}, std::as_bytes(std::span{bytes}).data());
    }
    return to_string(digest);
}

struct Store {
    std::string host;
    fs::path folder;
    std::vector<fs::path> files;  ///< relative
};

class Check {
public:
    Check(std::vector<Store> stores, const fs::path& root, const Checkpoint& checkpoint, const ReadRecord& record)
        : stores_{std::move(stores)}, root_{root}, checkpoint_{checkpoint} {
        std::set<fs::path> payload;
        for (const Piece& piece : checkpoint.catalogue.pieces) payload.insert(checkpoint.catalogue.path(piece.file));
        for (const auto& [path, file] : record.files()) {
            const fs::path inside = path.lexically_relative(root);
            if (!payload.contains(path) && !inside.empty() && *inside.begin() != "..") metadata_.insert(inside);
        }
    }

    std::size_t run() {
        for (const Store& store : stores_) compare(store);
        if (stores_.size() > 1) {
            for (const Store& store : stores_) require_metadata(store);
            if (!identifies_save(checkpoint_)) {
                const fs::path folder = checkpoint_.catalogue.directory.lexically_relative(root_);
                for (const Store& store : stores_) check_store_digests(store.folder, folder);
            }
        }
        return sampled_;
    }

private:
    void compare(const Store& store) {
        for (const fs::path& file : store.files) {
            const auto [first, is_first] = first_.emplace(file, &store);
            const fs::path other = is_first ? root_ / file : first->second->folder / file;
            // If stores are merged, the root consists of links, each to the first store that has the file.
            if (is_first && (!path_is_file(other) || fs::equivalent(other, store.folder / file))) continue;
            if (!same(store.folder / file, other))
                throw failure("{}: is not the same as {}; the stores hold different checkpoints or iterations",
                              (store.folder / file).string(), other.string());
            if (size_of_file(other) > compared_whole) ++sampled_;
        }
    }

    void require_metadata(const Store& store) const {
        for (const fs::path& file : metadata_) {
            if (std::ranges::find(store.files, file) == store.files.end())
                throw failure(
                    "{}: is missing, so that tpx cannot check that the files of host '{}' belong to the same "
                    "checkpoint as those of the other stores; copy it from {} if they do",
                    (store.folder / file).string(), store.host, source_of(file).string());
        }
    }

    fs::path source_of(const fs::path& file) const {
        const auto first = first_.find(file);
        return (first == first_.end() ? root_ : first->second->folder) / file;
    }

    std::vector<Store> stores_;
    const fs::path& root_;
    const Checkpoint& checkpoint_;
    std::set<fs::path> metadata_;
    std::map<fs::path, const Store*> first_;
    std::size_t sampled_ = 0;
};

}  // namespace

bool identifies_save(const Checkpoint& checkpoint) { return checkpoint.iteration || !checkpoint.save_id.empty(); }

void require_store_digests(const fs::path& store, const fs::path& folder) { recorded(store, folder); }

void check_store_digests(const fs::path& store, const fs::path& folder, const std::atomic<bool>* cancelled) {
    const RecordedDigests record = recorded(store, folder);
    std::map<fs::path, std::string> digests;
    for (const auto& file : record.files) digests[(folder / file.path).lexically_normal()] = file.digest;
    for (const fs::path& file : list_files_below(store)) {
        if (file.filename().string().ends_with(digests_file_name)) continue;
        const auto known = digests.find(file);
        if (known == digests.end() || known->second != digest_of(store / file, cancelled))
            throw failure("{}: is not what {} records", (store / file).string(), digests_file_name);
    }
}

std::size_t check_one_checkpoint(const std::string& pattern, std::span<const Host> hosts, const fs::path& root,
                                 const Checkpoint& checkpoint, const ReadRecord& record) {
    std::vector<Store> stores;
    for (const Host& host : hosts) {
        if (host.lost) continue;
        const fs::path folder = store_of(pattern, host);
        std::vector<fs::path> files = list_files_below(folder);
        if (!files.empty()) stores.push_back({host.name, folder, std::move(files)});
    }
    return Check{std::move(stores), root, checkpoint, record}.run();
}

}  // namespace tpx::formats
