// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/target_files.hpp"

#include "lib/core/error.hpp"
#include "lib/core/path.hpp"
#include "lib/core/write_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace tpx {

void sync_file(const Fd& fd, const std::filesystem::path& path) {
    int result = 0;
    do {
        result = ::fsync(fd.get());
    } while (result != 0 && errno == EINTR);
    if (result != 0) throw system_failure(path, errno);
}

TargetFiles::TargetFiles(std::span<const std::filesystem::path> paths, std::size_t most)
    : paths_{paths}, most_{most}, fds_(2 * paths.size()) {}

void TargetFiles::adopt(std::uint32_t file, Fd fd) {
    const std::lock_guard lock{mutex_};
    make_room();
    fds_[2 * std::size_t{file}] = std::make_shared<Fd>(std::move(fd));
    open_.push_back(2 * std::size_t{file});
}

std::shared_ptr<Fd> TargetFiles::buffered(std::uint32_t file) { return get(2 * std::size_t{file}, O_WRONLY); }

std::shared_ptr<Fd> TargetFiles::direct(std::uint32_t file) {
    const std::size_t slot = 2 * std::size_t{file} + 1;
    {
        const std::lock_guard lock{mutex_};
        if (!fds_[slot]) make_room();  // outside the try: errors on closing another file must be thrown
    }
    try {
        return get(slot, O_WRONLY | O_DIRECT);
    } catch (const Error&) {
        return nullptr;
    }
}

std::shared_ptr<Fd> TargetFiles::get(std::size_t slot, int flags) {
    const std::lock_guard lock{mutex_};
    if (!fds_[slot]) {
        make_room();
        fds_[slot] = std::make_shared<Fd>(open_file(paths_[slot / 2], flags));
        open_.push_back(slot);
    }
    return fds_[slot];
}

// If too many are open, closes the file opened first among those that no other thread is using.
void TargetFiles::make_room() {
    for (auto slot = open_.begin(); open_.size() >= most_ && slot != open_.end(); ++slot) {
        if (fds_[*slot].use_count() > 1) continue;
        const std::size_t closed = *slot;
        open_.erase(slot);
        close_file(std::move(*std::exchange(fds_[closed], nullptr)), paths_[closed / 2]);
        return;
    }
}

void TargetFiles::write(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes) {
    write_at(*buffered(file), offset, bytes, paths_[file]);
}

void TargetFiles::sync(std::uint32_t file) { sync_file(*buffered(file), paths_[file]); }

void TargetFiles::close() {
    const std::lock_guard lock{mutex_};
    while (!open_.empty()) {
        const std::size_t slot = open_.front();
        open_.pop_front();
        close_file(std::move(*std::exchange(fds_[slot], nullptr)), paths_[slot / 2]);
    }
}

}  // namespace tpx
