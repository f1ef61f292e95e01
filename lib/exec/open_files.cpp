// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/open_files.hpp"

#include "lib/core/error.hpp"
#include "lib/core/write_file.hpp"

#include <utility>

namespace tpx {
namespace {

// The usual limit of a process is 1024, which several threads share.
constexpr std::size_t most_open = 64;

}  // namespace

OpenFiles::OpenFiles(std::span<const std::filesystem::path> paths, int flags)
    : paths_{paths}, flags_{flags}, fds_(paths.size()) {}

void OpenFiles::make_room() {
    if (open_.size() < most_open) return;
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
    if (!fds_[file]) make_room();  // errors of what was written to others are errors
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
