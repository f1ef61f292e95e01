// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tpx {

/// The bytes that the ranks of a new layout need, by where they are: needed = kept + local + same_host + other_host +
/// storage.
struct BytesBySource {
    std::uint64_t needed = 0;      ///< by all ranks; bytes that a rank needs twice count once
    std::uint64_t kept = 0;        ///< on the rank's own device, in exactly the pieces that it needs
    std::uint64_t local = 0;       ///< on the rank's own device, in other pieces: copied inside it
    std::uint64_t same_host = 0;   ///< elsewhere on the host, or received by it for another of its ranks
    std::uint64_t other_host = 0;  ///< cross into a host from another one, once however many of its ranks need them
    std::uint64_t storage = 0;     ///< held by no host: read from shared storage, once for each host

    BytesBySource& operator+=(const BytesBySource& more);
    friend bool operator==(const BytesBySource&, const BytesBySource&) = default;
};

/// What one host reads, writes, sends, receives and copies, in bytes.
struct Load {
    std::uint64_t disk_read = 0;
    std::uint64_t disk_write = 0;
    std::uint64_t nic_in = 0;
    std::uint64_t nic_out = 0;
    std::uint64_t memory = 0;
    std::uint64_t device_copy = 0;  ///< copied inside the device that copies most
    std::uint64_t device_link = 0;  ///< copied between devices of the host, all together
};

}  // namespace tpx
