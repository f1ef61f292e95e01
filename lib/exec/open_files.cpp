// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/open_files.hpp"

#include "lib/core/error.hpp"
#include "lib/exec/image.hpp"

#include <optional>

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

void check_lengths(const mpi::Comm& comm, const Side& side, const std::vector<bool>& wanted,
                   std::span<const std::filesystem::path> files) {
    std::vector<std::optional<std::uint64_t>> lengths(files.size());
    for (std::size_t k = 0; k < side.pieces.size(); ++k) {
        const Piece& piece = side.pieces[k];
        const bool mine = piece.file % static_cast<std::uint32_t>(comm.size()) == std::uint32_t(comm.rank());
        if (!mine || !wanted[k] || empty(piece.box)) continue;
        auto& length = lengths[piece.file];
        if (!length) length = size_of_file(files[piece.file]);
        const Tensor& tensor = side.tensors[piece.tensor];
        const std::uint64_t end = image_of(piece, itemsize(tensor.dtype), piece.box).end;
        if (end > *length)
            throw failure("{}: tensor '{}': ends at byte {} of a file of {} bytes", files[piece.file].string(),
                          tensor.name, end, *length);
    }
}

}  // namespace tpx
