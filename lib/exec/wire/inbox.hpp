// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/parcel.hpp"
#include "lib/change/piece_parcels.hpp"
#include "lib/change/relocation.hpp"
#include "lib/core/catalogue.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <vector>

namespace tpx {

/// Where a host keeps what it receives: the parcels that transfers bring to it, one behind another in one file.
class Inbox {
public:
    Inbox(const Parcels& parcels, std::span<const Transfer> transfers, std::uint32_t host);

    std::uint64_t size() const { return size_; }

    /// Makes the file for all that comes, with holes until it has come. Throws Error.
    void create(const std::filesystem::path& path) const;

    /// Where byte `byte` of a parcel lies. Precondition: transfers bring the parcel.
    std::uint64_t place(std::uint32_t parcel, std::uint64_t byte) const { return begins_.at(parcel) + byte; }

    /// What the file contains when all has come, as pieces of file number `file`.
    std::vector<Piece> pieces(std::span<const PieceCell> cells, std::uint32_t file) const;

private:
    std::map<std::uint32_t, std::uint64_t> begins_;  // by parcel
    std::uint64_t size_ = 0;
};

}  // namespace tpx
