// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/arrivals.hpp"

#include "lib/core/error.hpp"

#include <fcntl.h>

#include <algorithm>

namespace tpx {

Arrivals::Arrivals(std::uint32_t file, const std::filesystem::path& path, bool once)
    : file_{file}, fd_{once ? open_file(path, O_WRONLY) : Fd{}} {}

void Arrivals::add(ByteRange range) {
    const std::lock_guard lock{mutex_};
    ranges_.add(range);
    ++count_;
    changed_.notify_all();
}

void Arrivals::stop() {
    const std::lock_guard lock{mutex_};
    stopped_ = true;
    changed_.notify_all();
}

bool Arrivals::contain(const Tile& tile) const {
    const std::lock_guard lock{mutex_};
    return std::ranges::all_of(tile.sources, [&](const Image& image) {
        return image.file != file_ || ranges_.contains({image.begin, image.end});
    });
}

void Arrivals::discard(const Tile& tile) const {
    constexpr std::uint64_t page = 4096;
    for (const Image& image : tile.sources) {
        const std::uint64_t begin = (image.begin + page - 1) / page * page, end = image.end / page * page;
        if (image.file != file_ || !fd_ || !image.is_run() || begin >= end) continue;
        // Has no effect if the file system does not support it.
        ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
                    static_cast<off_t>(end - begin));
    }
}

std::uint64_t Arrivals::count() const {
    const std::lock_guard lock{mutex_};
    return count_;
}

void Arrivals::wait(std::uint64_t count, std::chrono::milliseconds patience) {
    std::unique_lock lock{mutex_};
    changed_.wait_for(lock, patience, [&] { return stopped_ || count_ > count; });
    if (stopped_) throw failure("bytes from other hosts stopped arriving");
}

}  // namespace tpx
