// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tpx {

/// Where the bytes that the ranks of a new layout need are: needed = kept + local + same_host + other_host + storage.
struct Bytes {
    std::uint64_t needed = 0;      ///< by all ranks; what a rank needs twice counts once
    std::uint64_t kept = 0;        ///< on the rank's own device, in the very pieces that it needs
    std::uint64_t local = 0;       ///< on the rank's own device, in other pieces: copied inside it
    std::uint64_t same_host = 0;   ///< elsewhere on the host, or on their way into it for another of its ranks
    std::uint64_t other_host = 0;  ///< cross into a host from another, each once however many of its ranks need them
    std::uint64_t storage = 0;     ///< on no host any more: read from shared storage, once for each host

    Bytes& operator+=(const Bytes& more);
    friend bool operator==(const Bytes&, const Bytes&) = default;
};

/// What one host reads, writes, sends, receives and copies, in bytes.
struct Load {
    std::uint64_t disk_read = 0;
    std::uint64_t disk_write = 0;
    std::uint64_t nic_in = 0;
    std::uint64_t nic_out = 0;
    std::uint64_t memory = 0;
    std::uint64_t device_copy = 0;  ///< copied inside the device that copies most
    std::uint64_t device_link = 0;  ///< from devices of the host to others, all together
};

}  // namespace tpx
