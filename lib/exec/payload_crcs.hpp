// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/exec/mpi.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tpx {

/// The CRC-32 of each payload that has a slot in a draft, computed from fragments in any order, on any ranks and
/// threads.
class PayloadCrcs {
public:
    explicit PayloadCrcs(const Draft& draft);

    /// Adds bytes that were written to a file; ignores bytes that belong to no payload with a slot. Several threads may
    /// call it.
    void add(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes);

    /// Forgets everything that was added.
    void clear();

    /// Combines what all ranks have added. Collective; then value() may be called.
    void combine(const mpi::Comm& comm);

    /// The value for the draft's slot number `slot`. Bytes that were never added count as zero.
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
