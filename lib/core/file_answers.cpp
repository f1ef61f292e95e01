// SPDX-License-Identifier: Apache-2.0
#include "lib/core/file_answers.hpp"

#include "lib/core/error.hpp"
#include "lib/core/packing.hpp"

#include <atomic>
#include <utility>

namespace tpx {
namespace {

std::atomic<FileAnswers*> living{nullptr};

thread_local bool paused = false;

// Whether each process must ask the file system itself: /proc contains what the kernel reports about the reading
// process, and the source of zeros that tpx reads instead of missing parts.
bool is_own(const std::filesystem::path& path) { return path.native().starts_with("/proc/"); }

}  // namespace

FileAnswers::FileAnswers(const std::filesystem::path& root) : root_{root.string()}, records_{true} { living = this; }

FileAnswers::FileAnswers(const std::filesystem::path& root, std::string packed)
    : root_{root.string()}, records_{false}, bytes_{std::move(packed)} {
    std::string_view rest = bytes_;
    for (auto left = unpack<std::uint64_t>(rest); left > 0; --left) {
        const auto size = unpack<std::uint64_t>(rest);
        numbers_.emplace(rest.substr(0, size), static_cast<std::uint32_t>(numbers_.size()));
        rest.remove_prefix(size);
    }
    const auto count = unpack<std::uint64_t>(rest);
    places_.reserve(count);
    for (auto left = count; left > 0; --left) {
        const Key key = unpack<Key>(rest);
        places_.emplace(key, unpack<Place>(rest));
    }
    bytes_.erase(0, bytes_.size() - rest.size());
    living = this;
}

FileAnswers::~FileAnswers() { living = nullptr; }

void FileAnswers::forget() { living = nullptr; }

FileAnswers* FileAnswers::current() { return paused ? nullptr : living.load(std::memory_order_relaxed); }

FileAnswers::Pause::Pause() : before_{std::exchange(paused, true)} {}

FileAnswers::Pause::~Pause() { paused = before_; }

std::string FileAnswers::take_packed() {
    std::vector<std::string_view> paths(numbers_.size());
    for (const auto& [path, number] : numbers_) paths[number] = path;
    std::string all;
    pack(all, std::uint64_t{paths.size()});
    for (const std::string_view path : paths) {
        pack(all, std::uint64_t{path.size()});
        all += path;
    }
    pack(all, std::uint64_t{places_.size()});
    for (const auto& [key, place] : places_) {
        pack(all, key);
        pack(all, place);
    }
    places_.clear();
    numbers_.clear();
    bytes_.insert(0, all);
    return std::exchange(bytes_, {});
}

std::size_t FileAnswers::KeyHash::operator()(const Key& key) const {
    constexpr std::uint64_t factor = 0x9e3779b97f4a7c15;
    std::uint64_t hash = static_cast<std::uint64_t>(key.question);
    for (const std::uint64_t number : {std::uint64_t{key.path}, key.offset, key.size}) {
        hash = (hash ^ number) * factor;
        hash ^= hash >> 32;
    }
    return hash;
}

std::uint32_t FileAnswers::number_of(const std::filesystem::path& path) {
    std::string_view name = path.native();
    std::string relative;
    const bool inside = !root_.empty() && name.starts_with(root_) &&
                        (name.size() == root_.size() || root_.back() == '/' || name[root_.size()] == '/');
    if (inside) {
        relative = '\0';  // which no path contains
        relative += name.substr(root_.size());
        name = relative;
    }
    return numbers_.try_emplace(std::string{name}, static_cast<std::uint32_t>(numbers_.size())).first->second;
}

// Completes the key and looks it up. Finds nothing while recording: that process asks the file system each time.
std::optional<FileAnswers::Place> FileAnswers::find(Key& key, const std::filesystem::path& path) {
    const std::lock_guard lock{mutex_};
    key.path = number_of(path);
    const auto found = places_.find(key);
    return records_ || found == places_.end() ? std::nullopt : std::optional{found->second};
}

std::string FileAnswers::answer(Question question, const std::filesystem::path& path, std::uint64_t offset,
                                std::uint64_t size, const std::function<std::string()>& ask) {
    if (is_own(path)) return ask();
    Key key{question, 0, offset, size};
    if (const std::optional<Place> known = find(key, path)) {
        std::string bytes = bytes_.substr(known->begin, known->size);
        if (known->failed == 0) return bytes;
        throw Error{static_cast<Exit>(known->failed), "{}", bytes};
    }
    const auto keep = [&](std::string_view bytes, int failed) {
        const std::lock_guard lock{mutex_};
        if (!records_ || !places_.try_emplace(key, Place{bytes_.size(), bytes.size(), failed}).second) return;
        bytes_ += bytes;
    };
    try {
        std::string bytes = ask();
        keep(bytes, 0);
        return bytes;
    } catch (const Error& error) {
        keep(error.what(), static_cast<int>(error.exit()));
        throw;
    }
}

void FileAnswers::set_descriptor(int fd, const std::filesystem::path& path) {
    const std::lock_guard lock{mutex_};
    descriptors_[fd] = path;
}

std::optional<std::filesystem::path> FileAnswers::path_of(int fd) {
    const std::lock_guard lock{mutex_};
    const auto found = descriptors_.find(fd);
    return found == descriptors_.end() ? std::nullopt : std::optional{found->second};
}

}  // namespace tpx
