// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/device/rounds.hpp"

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// The links between memories that contain state, by which sources of moves are chosen.
namespace tpx {

/// The kinds of links, fastest first. `pcie` is any peer access without NVLink; `host_memory` is every way by memory of
/// the host, such as between GPUs without peer access. GPUs with the same number on two hosts share a rail.
enum class LinkClass : std::uint8_t { same_gpu, nvlink, pcie, host_memory, rail, network };
inline constexpr std::array<std::string_view, 6> link_class_keys{"same_gpu",    "nvlink", "pcie",
                                                                 "host_memory", "rail",   "network"};
inline constexpr std::array<std::string_view, 6> link_class_names{
    "within a GPU", "by NVLink", "by PCIe", "through host memory", "on the same rail", "across rails"};

/// One link. Links of one kind are ordered by `rank`; lower is faster.
struct MemoryLink {
    LinkClass kind = LinkClass::host_memory;
    int rank = 0;

    friend auto operator<=>(const MemoryLink&, const MemoryLink&) = default;
};

/// The links from each GPU of a host to each GPU of it, by their numbers.
using GpuLinks = std::vector<std::vector<MemoryLink>>;

/// One line of text, and back.
std::string to_text(const GpuLinks& links);
GpuLinks parse_gpu_links(const std::string& text);

/// The link from one memory to another. `links` are of the host of `to`; pairs of GPUs that it lacks have peer access.
MemoryLink link_between(const Endpoint& from, const Endpoint& to, const GpuLinks& links);

/// Orders links as `operator<` does, for PieceDistance.
int distance(const MemoryLink& link);

/// Bytes that each kind of link carries.
struct LinkBytes {
    std::array<std::uint64_t, link_class_keys.size()> bytes{};

    std::uint64_t& operator[](LinkClass kind) { return bytes[static_cast<std::size_t>(kind)]; }
    std::uint64_t operator[](LinkClass kind) const { return bytes[static_cast<std::size_t>(kind)]; }
    LinkBytes& operator+=(const LinkBytes& other);
};

/// "1.00 MB by NVLink, 2.00 MB by PCIe", without kinds that carry nothing; empty if no kind carries anything.
std::string to_text(const LinkBytes& links);

}  // namespace tpx
