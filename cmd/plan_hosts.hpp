// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/commands.hpp"
#include "lib/change/placement.hpp"
#include "lib/core/error.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace tpx::cli {

/// The hosts of --hosts, with the rates of --hardware, and with --lost and --spare applied; without --hosts those of
/// --hardware, without both one host with `ranks` devices. Throws Error (usage) for names that are not among them.
std::vector<Host> given_hosts(const PlanOptions& options, int ranks);

/// Where the old ranks are: as --ranks-on says, or in the order of the hosts.
std::vector<Seat> given_seats(const PlanOptions& options, const std::vector<Host>& hosts, int ranks);

/// A device cannot hold what a new rank needs.
class MemoryError : public Error {
public:
    template <class... Args>
    explicit MemoryError(std::uint64_t bytes, fmt::format_string<Args...> format, Args&&... args)
        : Error{Exit::no, format, std::forward<Args>(args)...}, bytes_{bytes} {}

    std::uint64_t bytes() const { return bytes_; }  ///< that the rank needs

private:
    std::uint64_t bytes_;
};

/// Throws MemoryError (no) when a device cannot hold what its new rank needs.
void check_device_memory(const std::vector<Host>& hosts, const Placement& placement,
                         const std::vector<std::uint64_t>& needed);

}  // namespace tpx::cli
