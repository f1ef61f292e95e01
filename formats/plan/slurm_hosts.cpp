// SPDX-License-Identifier: Apache-2.0
#include "formats/plan/slurm_hosts.hpp"

#include "formats/plan/host_names.hpp"
#include "lib/core/error.hpp"

#include <charconv>

namespace tpx::formats {
namespace {

int positive(std::string_view text, std::string_view variable) {
    int value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc{} || end != text.data() + text.size() || value < 1 || value > 4096)
        throw Error{Exit::usage, "{}: '{}' is not a number from 1 to 4096", variable, text};
    return value;
}

// "8(x3),4" is 8, 8, 8, 4.
std::vector<int> expand_counts(std::string_view text, std::string_view variable) {
    std::vector<int> counts;
    while (!text.empty()) {
        const std::string_view item = text.substr(0, text.find(','));
        text.remove_prefix(std::min(item.size() + 1, text.size()));
        const std::size_t times = item.find("(x");
        const bool repeats = times != item.npos && item.ends_with(')');
        const int repeat = repeats ? positive(item.substr(times + 2, item.size() - times - 3), variable) : 1;
        counts.insert(counts.end(), static_cast<std::size_t>(repeat), positive(item.substr(0, times), variable));
    }
    return counts;
}

}  // namespace

std::vector<Host> slurm_hosts(const Environment& environment) {
    const auto list = environment("SLURM_JOB_NODELIST");
    if (!list) throw Error{Exit::usage, "hosts: SLURM_JOB_NODELIST is not set; tpx is not running in a Slurm job"};
    const std::vector<std::string> names = expand_host_names(*list);
    std::vector<int> devices;
    if (const auto gpus = environment("SLURM_GPUS_ON_NODE"))
        devices.assign(names.size(), positive(*gpus, "SLURM_GPUS_ON_NODE"));
    else if (const auto tasks = environment("SLURM_TASKS_PER_NODE"))
        devices = expand_counts(*tasks, "SLURM_TASKS_PER_NODE");
    else
        devices.assign(names.size(), 1);
    if (devices.size() != names.size())
        throw Error{Exit::usage, "SLURM_TASKS_PER_NODE is for {} hosts, SLURM_JOB_NODELIST names {}", devices.size(),
                    names.size()};
    std::vector<Host> hosts(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
        hosts[i].name = names[i];
        hosts[i].gpus = devices[i];
    }
    return hosts;
}

}  // namespace tpx::formats
