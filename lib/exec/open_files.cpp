// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/open_files.hpp"

#include "lib/core/error.hpp"
#include "lib/core/write_file.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

namespace tpx {
namespace {

// A process may have 1024 files open by default, often more if it asks for more. Several threads share them, with two
// or three OpenFiles each, and the rest of the process needs some files.
constexpr std::size_t few_open = 64, most_open = 4096, share_of_limit = 16;

std::size_t limit_of_process() {
    struct rlimit limit {};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return few_open * share_of_limit;
    if (limit.rlim_cur < limit.rlim_max) {
        const struct rlimit raised { std::min<rlim_t>(limit.rlim_max, most_open* share_of_limit), limit.rlim_max };
        if (raised.rlim_cur > limit.rlim_cur && ::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
    }
    return limit.rlim_cur;
}

}  // namespace

std::size_t allowed_open_files(std::size_t shares) {
    static const std::size_t limit = limit_of_process();
    return std::clamp<std::size_t>(limit / shares, std::min<std::size_t>(few_open, limit / 8 + 1),
                                   most_open * share_of_limit / shares);
}

OpenFiles::OpenFiles(std::span<const std::filesystem::path> paths, int flags)
    : paths_{paths}, flags_{flags}, fds_(paths.size()) {}

void OpenFiles::make_room() {
    static const std::size_t most = allowed_open_files(share_of_limit);
    if (open_.size() < most) return;
    const std::uint32_t oldest = open_.front();
    open_.pop_front();
    close_file(std::move(fds_[oldest]), paths_[oldest]);
}

const Fd& OpenFiles::get(std::uint32_t file) {
    if (!fds_[file]) {
        make_room();
        fds_[file] = open_file(paths_[file], flags_);
        open_.push_back(file);
    }
    return fds_[file];
}

const Fd* OpenFiles::get_if_possible(std::uint32_t file) {
    if (!fds_[file]) make_room();  // outside the try: errors on closing another file must be thrown
    try {
        return &get(file);
    } catch (const Error&) {
        return nullptr;
    }
}

void OpenFiles::close() {
    while (!open_.empty()) {
        const std::uint32_t file = open_.front();
        open_.pop_front();
        close_file(std::move(fds_[file]), paths_[file]);
    }
}

}  // namespace tpx
