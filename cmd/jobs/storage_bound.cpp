// SPDX-License-Identifier: Apache-2.0
#include "cmd/jobs/storage_bound.hpp"

#include "lib/core/host_name.hpp"

#include <set>
#include <string>
#include <vector>

namespace tpx::cli {

Prediction storage_bound(const mpi::Comm& comm, const std::vector<Host>& known, std::uint64_t read,
                         std::uint64_t written) {
    const std::vector<std::string> all = mpi::all_gather(comm, host_name());
    const std::set<std::string> names{all.begin(), all.end()};
    std::vector<Host> hosts;
    for (const std::string& name : names) hosts.emplace_back().name = name;
    fill_rates(hosts, known);
    return predict_storage(hosts, read, written);
}

}  // namespace tpx::cli
