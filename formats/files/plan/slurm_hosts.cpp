// SPDX-License-Identifier: Apache-2.0
#include "formats/files/plan/slurm_hosts.hpp"

#include "formats/files/plan/host_names.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
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

// "8", "a100:8" and "gpu:a100:8" are 8; "a100:4,v100:2" is 6.
int gpu_count(std::string_view text, std::string_view variable) {
    int count = 0;
    do {
        std::string_view item = text.substr(0, text.find(','));
        text.remove_prefix(std::min(item.size() + 1, text.size()));
        if (const std::size_t colon = item.rfind(':'); colon != item.npos) item.remove_prefix(colon + 1);
        count += positive(item, variable);
    } while (!text.empty());
    return count;
}

// "0,1,2,3" and "0-3" are 4.
int list_length(std::string_view text, std::string_view variable) {
    return static_cast<int>(expand_host_names(fmt::format("{}[{}]", variable, text)).size());
}

// The number of tasks on each host of the job, one for each device. In a job step, SLURM_TASKS_PER_NODE describes the
// step's hosts; the job's other hosts are assumed to have the largest of these numbers.
std::vector<int> task_counts(const Environment& environment, std::string_view tasks,
                             const std::vector<std::string>& names) {
    const std::vector<int> counts = expand_counts(tasks, "SLURM_TASKS_PER_NODE");
    if (counts.size() == names.size()) return counts;
    const auto step = environment("SLURM_STEP_NODELIST");
    const std::vector<std::string> step_names = step ? expand_host_names(*step) : std::vector<std::string>{};
    if (counts.empty() || step_names.size() != counts.size())
        throw Error{Exit::usage,
                    "SLURM_TASKS_PER_NODE describes {} hosts, but SLURM_JOB_NODELIST names {}; request the job with "
                    "--gpus-per-node, or list the hosts in a file",
                    counts.size(), names.size()};
    std::vector<int> all(names.size(), std::ranges::max(counts));
    for (std::size_t i = 0; i < names.size(); ++i)
        if (const auto found = std::ranges::find(step_names, names[i]); found != step_names.end())
            all[i] = counts[static_cast<std::size_t>(found - step_names.begin())];
    return all;
}

// The devices of each host. SLURM_GPUS_ON_NODE and SLURM_JOB_GPUS describe the current host only.
std::vector<int> device_counts(const Environment& environment, const std::vector<std::string>& names) {
    const std::size_t hosts = names.size();
    std::optional<int> each;
    if (const auto per_node = environment("SLURM_GPUS_PER_NODE"))
        each = gpu_count(*per_node, "SLURM_GPUS_PER_NODE");
    else if (const auto on_node = environment("SLURM_GPUS_ON_NODE"))
        each = gpu_count(*on_node, "SLURM_GPUS_ON_NODE");
    else if (const auto list = environment("SLURM_JOB_GPUS"))
        each = list_length(*list, "SLURM_JOB_GPUS");
    if (each) {
        const auto all = environment("SLURM_GPUS");
        const std::size_t total = static_cast<std::size_t>(*each) * hosts;
        if (all && static_cast<std::size_t>(gpu_count(*all, "SLURM_GPUS")) != total)
            throw Error{Exit::usage,
                        "hosts: this host has {} of the job's {} GPUs, and Slurm's variables do not say how the others "
                        "are spread over {} hosts; request the job with --gpus-per-node, or list the hosts in a file",
                        *each, *all, hosts};
        return std::vector<int>(hosts, *each);
    }
    if (const auto tasks = environment("SLURM_TASKS_PER_NODE")) return task_counts(environment, *tasks, names);
    return std::vector<int>(hosts, 1);
}

}  // namespace

std::vector<Host> slurm_hosts(const Environment& environment) {
    const auto list = environment("SLURM_JOB_NODELIST");
    if (!list) throw Error{Exit::usage, "hosts: SLURM_JOB_NODELIST is not set; tpx is not running in a Slurm job"};
    const std::vector<std::string> names = expand_host_names(*list);
    const std::vector<int> devices = device_counts(environment, names);
    std::vector<Host> hosts(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
        hosts[i].name = names[i];
        hosts[i].gpus = devices[i];
    }
    return hosts;
}

}  // namespace tpx::formats
