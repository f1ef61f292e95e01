// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/open_files.hpp"

namespace tpx {
namespace {

// The usual limit of a process is 1024, which several threads share.
constexpr std::size_t most_open = 64;

}  // namespace

OpenFiles::OpenFiles(std::span<const std::filesystem::path> paths, int flags)
    : paths_{paths}, flags_{flags}, fds_(paths.size()) {}

const Fd& OpenFiles::get(std::uint32_t file) {
    Fd& fd = fds_[file];
    if (fd) return fd;
    if (open_.size() == most_open) {
        fds_[open_.front()] = Fd{};
        open_.pop_front();
    }
    fd = open_file(paths_[file], flags_);
    open_.push_back(file);
    return fd;
}

}  // namespace tpx
