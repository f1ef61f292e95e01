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

/// Where a host keeps what it receives: the parcels that transfers bring to it, one after another in one file.
class Inbox {
public:
    Inbox(const Parcels& parcels, std::span<const Transfer> transfers, std::uint32_t host);

    std::uint64_t size() const { return size_; }

    /// Creates the file for all these parcels, with holes until their bytes arrive. Throws Error.
    void create(const std::filesystem::path& path) const;

    /// The offset in the file of byte `byte` of a parcel. Precondition: transfers bring the parcel.
    std::uint64_t place(std::uint32_t parcel, std::uint64_t byte) const { return begins_.at(parcel) + byte; }

    /// What the file contains once all bytes have arrived, as pieces of file number `file`.
    std::vector<Piece> pieces(std::span<const PieceCell> cells, std::uint32_t file) const;

private:
    std::map<std::uint32_t, std::uint64_t> begins_;  // by parcel
    std::uint64_t size_ = 0;
};

}  // namespace tpx
