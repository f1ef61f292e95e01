// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/exec/mpi.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// The CRC-32 of each payload of a draft that has a slot for it, gathered from fragments in any order, by any ranks and
/// threads.
class PayloadCrcs {
public:
    explicit PayloadCrcs(const Draft& draft);

    /// Takes in bytes that were written to a file; what belongs to no payload with a slot is passed over. Several
    /// threads may call it.
    void add(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes);

    /// Forgets all that was taken in.
    void clear();

    /// Adds up what all ranks have taken in. Collective; then value() may be called.
    void combine(const mpi::Comm& comm);

    /// What goes into the draft's `slot`-th slot. Bytes that were never added count as zero.
    std::uint32_t value(std::size_t slot) const;

private:
    struct Payload {
        std::uint32_t file;
        std::uint64_t begin;
        std::uint64_t end;
        std::uint32_t crc;
    };
    std::vector<Payload> payloads_;     // by file and offset
    std::vector<std::size_t> of_slot_;  // index into payloads_
};

}  // namespace tpx
