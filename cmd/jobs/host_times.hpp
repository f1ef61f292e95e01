// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/change/hosts.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tpx::cli {

/// Seconds that hosts need for bytes at their rates; collects the names of resources whose rates are assumed.
class HostTimes {
public:
    explicit HostTimes(std::vector<std::string>& assumed) : assumed_{assumed} {}

    double nic(std::uint64_t bytes, const Host& host) { return time(bytes, host.nic, default_rates.nic, "NIC"); }
    double read(std::uint64_t bytes, const Host& host) {
        return time(bytes, host.disk_read, default_rates.disk_read, "disk read");
    }
    double write(std::uint64_t bytes, const Host& host) {
        return time(bytes, host.disk_write, default_rates.disk_write, "disk write");
    }

private:
    double time(std::uint64_t bytes, const std::optional<double>& rate, double otherwise, const char* resource) {
        if (bytes > 0 && !rate && std::ranges::find(assumed_, resource) == assumed_.end()) assumed_.push_back(resource);
        return static_cast<double>(bytes) / rate.value_or(otherwise);
    }

    std::vector<std::string>& assumed_;
};

}  // namespace tpx::cli
