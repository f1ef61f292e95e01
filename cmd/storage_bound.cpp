// SPDX-License-Identifier: Apache-2.0
#include "cmd/storage_bound.hpp"

#include "lib/core/host_name.hpp"

#include <set>
#include <sstream>

namespace tpx::cli {

Prediction storage_bound(const mpi::Comm& comm, const std::vector<Host>& known, std::uint64_t read,
                         std::uint64_t written) {
    std::string all;
    for (const std::string& name : mpi::gather(comm, host_name())) all += name + "\n";
    mpi::broadcast(comm, all);
    std::istringstream lines{all};
    std::set<std::string> names;
    for (std::string name; std::getline(lines, name);) names.insert(name);
    std::vector<Host> hosts;
    for (const std::string& name : names) hosts.emplace_back().name = name;
    fill_rates(hosts, known);
    return predict(hosts, storage_loads(hosts, read, written));
}

}  // namespace tpx::cli
