// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/plan/plan.hpp"
#include "lib/change/placement.hpp"
#include "lib/change/relocation.hpp"
#include "lib/core/error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tpx::cli {

/// The hosts of --hosts, with the rates of --hardware and with --iteration, --lost and --spare applied; without --hosts
/// those of
/// --hardware, without both one host with `ranks` devices. Throws Error (usage) for names that are not among them.
std::vector<Host> given_hosts(const PlanOptions& options, int ranks);

/// `hosts` with the rates, iteration, lost and spare hosts that `options` give besides. Throws Error (usage) for names
/// of other hosts, and if all are lost.
std::vector<Host> changed_hosts(std::vector<Host> hosts, const PlanOptions& options);

/// The names in `list`, the value of `option`. Throws Error (usage) if a name occurs twice, which is a typing error:
/// another host was meant.
std::vector<std::string> distinct_names(const std::string& list, const char* option);

/// The iteration that `option` gives as `text`; nothing if it is empty. Throws Error (usage).
std::optional<std::uint64_t> given_iteration(const std::string& text, const char* option);

/// Where the old ranks are: as --ranks-on says, or in the order of the hosts. Ranks on lost devices are nowhere, or in
/// the store of their host if that has the state.
std::vector<Seat> given_seats(const PlanOptions& options, const std::vector<Host>& hosts, int ranks, StateIn state);

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
