// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/wire/inbox.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace tpx {

Inbox::Inbox(const Parcels& parcels, std::span<const Transfer> transfers, std::uint32_t host) {
    for (const Transfer& transfer : transfers)
        if (transfer.to == host) begins_.emplace(transfer.parcel, 0);
    for (auto& [parcel, begin] : begins_) {
        begin = size_;
        size_ += parcels.parcels[parcel].bytes;
    }
}

void Inbox::create(const std::filesystem::path& path) const {
    const Fd fd = open_file(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (::ftruncate(fd.get(), static_cast<off_t>(size_)) != 0) throw system_failure(path, errno);
}

std::vector<Piece> Inbox::pieces(std::span<const PieceCell> cells, std::uint32_t file) const {
    std::vector<Piece> pieces;
    for (const PieceCell& cell : cells) {
        const auto begin = begins_.find(cell.parcel);
        if (begin == begins_.end()) continue;
        pieces.push_back({.tensor = cell.tensor,
                          .file = file,
                          .offset = begin->second + cell.begin,
                          .box = cell.box,
                          .strides = row_major(sizes(cell.box))});
    }
    return pieces;
}

}  // namespace tpx
