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

/// The hosts of --hosts or, by default, those of --hardware; without both, one host with `ranks` devices. Applies the
/// rates of --hardware and apply_host_options(). Throws Error (usage) as apply_host_options() does.
std::vector<Host> hosts_from_options(const PlanOptions& options, int ranks);

/// `hosts` with the rates, iteration, lost hosts and spare hosts that `options` give. Throws Error (usage) for names
/// that are not among `hosts`, and if all hosts are lost.
std::vector<Host> apply_host_options(std::vector<Host> hosts, const PlanOptions& options);

/// The names in `list`, the value of `option`. Throws Error (usage) if a name occurs twice, which is probably a typo.
std::vector<std::string> distinct_names(const std::string& list, const char* option);

/// The number of an option whose range excludes negative numbers.
inline std::optional<std::uint64_t> unsigned_of(Integer number) {
    return number ? std::optional{static_cast<std::uint64_t>(*number)} : std::nullopt;
}

/// Where the old ranks are: according to --ranks-on or, by default, in the order of the hosts. Ranks on lost devices
/// have no location or, if state is in stores, a location in the store of their host.
std::vector<RankLocation> locations_from_options(const PlanOptions& options, const std::vector<Host>& hosts, int ranks,
                                                 StateMedium state);

/// The error that the memory of a device is too small for its new rank.
class MemoryError : public Error {
public:
    template <class... Args>
    explicit MemoryError(std::uint64_t bytes, fmt::format_string<Args...> format, Args&&... args)
        : Error{Exit::no, format, std::forward<Args>(args)...}, bytes_{bytes} {}

    std::uint64_t bytes() const { return bytes_; }  ///< the memory that the rank needs

private:
    std::uint64_t bytes_;
};

/// Throws MemoryError (no) if the memory of a device is smaller than the bytes that its new rank needs, `needed`.
void check_device_memory(const std::vector<Host>& hosts, const Placement& placement,
                         const std::vector<std::uint64_t>& needed);

}  // namespace tpx::cli
