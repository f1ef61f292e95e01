// SPDX-License-Identifier: Apache-2.0
#include "cmd/plan/plan_request.hpp"

#include "cmd/cli/cli.hpp"
#include "cmd/plan/plan_hosts.hpp"
#include "cmd/plan/planning.hpp"
#include "lib/core/error.hpp"
#include "lib/core/units.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace tpx::cli {
namespace {

class RequestCheck {
public:
    RequestCheck(const PlanOptions& options, const formats::PlanFile& plan) : options_{options}, plan_{plan} {}

    void run() const {
        check_subjects();
        compare_layout("--from", options_.from, plan_.from);
        compare_layout("--to", options_.to, plan_.to);
        if (!options_.model.empty()) compare_model();
        if (plan_.hosts) compare_hosts(*plan_.hosts);
    }

private:
    template <class A, class B>
    void require_equal(std::string_view what, const A& stored, const B& given) const {
        if (stored != given)
            throw Error{Exit::no, "{}: was made for another request: {} was {}, not {}", options_.check, what, stored,
                        given};
    }

    /// Options that describe a model or checkpoint require one.
    void check_subjects() const {
        if (!options_.model.empty()) return;
        if (!options_.roles.empty()) throw Error{Exit::usage, "--check: --roles requires --model"};
        if (options_.derive_weights) throw Error{Exit::usage, "--check: --derive-weights requires --model"};
        if (!options_.checkpoint.empty()) return;
        const std::pair<const char*, bool> described[]{{"--format", !options_.format.empty()},
                                                       {"--dialect", !options_.dialect.empty()},
                                                       {"--rules", !options_.rules.empty()},
                                                       {"--config", !options_.config.empty()},
                                                       {"--set", !options_.settings.empty()}};
        for (const auto& [option, given] : described)
            if (given) throw Error{Exit::usage, "--check: {} requires CKPT or --model", option};
    }

    void compare_layout(const char* option, const std::string& given, const std::string& stored) const {
        if (given.empty()) return;
        const Layout layout = layout_from_text_or_file(given);
        if (stored.empty() || parse_layout(stored) != layout)
            require_equal(option, stored.empty() ? "unknown" : stored, to_string(layout));
    }

    void compare_model() const {
        if (!options_.format.empty())
            throw Error{Exit::usage, "--format: plans of models are made without it (--check)"};
        if (!plan_.model) throw Error{Exit::no, "{}: was made for a checkpoint, not for a model", options_.check};
        ModelState given = model_from_options(options_);
        if (options_.derive_weights) std::erase_if(given.roles, [](const StateRole& r) { return !r.is_optimizer(); });
        require_equal("--model", plan_.model->name, given.name);
        formats::PlanFile a, b;
        a.model = plan_.model;
        b.model = given;
        if (formats::request_digest(a) != formats::request_digest(b))
            throw Error{Exit::no, "{}: was made for another request: --model {} had other tensors or roles",
                        options_.check, given.name};
    }

    std::vector<Host> hosts_of_request(const Change& stored) const;
    void compare_hosts(const Change& stored) const;
    void compare_placement(PlacementGoal stored) const;
    void compare_host(const Host& stored, const Host& given) const;
    void compare_sources(const Change& stored) const;

    const PlanOptions& options_;
    const formats::PlanFile& plan_;
};

// The given hosts or, by default, those of the plan, with the changes that other options ask for.
std::vector<Host> RequestCheck::hosts_of_request(const Change& stored) const {
    const int ranks = std::max(static_cast<int>(stored.old_ranks.size()), stored.parcels.new_ranks);
    if (!options_.hosts.empty() || !options_.hardware.empty()) return hosts_from_options(options_, ranks);
    std::vector<Host> hosts = stored.hosts;
    const bool are_changed =
        !options_.lost.empty() || !options_.spare.empty() || options_.nic || options_.disk.read || options_.gpu_memory;
    if (!are_changed) return hosts;
    for (Host& host : hosts) {
        if (!options_.lost.empty()) host.lost = false;
        if (!options_.lost.empty()) host.lost_devices.clear();
        if (!options_.spare.empty()) host.spare = false;
    }
    return apply_host_options(std::move(hosts), options_);
}

void RequestCheck::compare_hosts(const Change& stored) const {
    const int old_ranks = static_cast<int>(stored.old_ranks.size());
    const std::vector<Host> given = hosts_of_request(stored);
    require_equal("the number of hosts", stored.hosts.size(), given.size());
    for (std::size_t h = 0; h < given.size(); ++h) compare_host(stored.hosts[h], given[h]);
    check_device_memory(given, stored.placement, bytes_after(stored.parcels));  // plans do not store the memory
    if (!options_.ranks_on.empty() &&
        locations_from_options(options_, stored.hosts, old_ranks, stored.state) != stored.old_ranks)
        throw Error{Exit::no, "{}: was made for another request: --ranks-on put ranks elsewhere", options_.check};
    const auto name_of = [](StateMedium state) {
        return state == StateMedium::memory ? "memory" : state == StateMedium::stores ? "stores" : "shared";
    };
    if (!options_.state.empty()) require_equal("--state-in", std::string{name_of(stored.state)}, options_.state);
    compare_placement(stored.placement.placed_for);
    compare_sources(stored);
    if (options_.window) require_equal("--staging", stored.relocation.window, *options_.window);
}

// A placement that is the fastest one found may be proven to have the fewest bytes, too.
void RequestCheck::compare_placement(PlacementGoal stored) const {
    if (options_.pin) require_equal("--pin", stored == PlacementGoal::order, true);
    if (options_.objective == "bytes" && stored == PlacementGoal::time)
        require_equal("--objective", std::string{"time"}, options_.objective);
    if (!options_.placement.empty())
        require_equal("--placement", std::string{stored == PlacementGoal::groups ? "groups" : "blocks"},
                      options_.placement);
}

void RequestCheck::compare_host(const Host& stored, const Host& given) const {
    const auto what = [&](const char* key) { return fmt::format("{} of host '{}'", key, given.name); };
    require_equal("a host", stored.name, given.name);
    require_equal(what("gpus"), stored.gpus, given.gpus);
    require_equal(what("nic"), stored.nic.value_or(0), given.nic.value_or(0));
    require_equal(what("disk_read"), stored.disk_read.value_or(0), given.disk_read.value_or(0));
    require_equal(what("disk_write"), stored.disk_write.value_or(0), given.disk_write.value_or(0));
    require_equal(what("memory"), stored.memory.value_or(0), given.memory.value_or(0));
    require_equal(what("switch"), stored.switch_group, given.switch_group);
    require_equal(what("rails"), stored.rails, given.rails);
    require_equal(what("lost"), stored.lost, given.lost);
    require_equal(what("spare"), stored.spare, given.spare);
    require_equal(what("lost devices"), fmt::format("{}", stored.lost_devices), fmt::format("{}", given.lost_devices));
}

void RequestCheck::compare_sources(const Change& stored) const {
    const auto on_hosts = unsigned_of(options_.iteration);
    const auto in_storage = unsigned_of(options_.storage_iteration);
    for (const StateSource& source : stored.sources) {
        const bool is_storage = source.host == from_storage;
        const auto given = is_storage ? in_storage : on_hosts;
        if (given) require_equal(is_storage ? "--storage-iteration" : "--iteration", *source.iteration, *given);
    }
    // A plan without an iteration does not match a given iteration.
    const bool is_shared = stored.state == StateMedium::shared;
    const auto& given = is_shared ? in_storage : on_hosts;
    const auto is_source = [&](const StateSource& source) { return (source.host == from_storage) == is_shared; };
    if (given && std::ranges::none_of(stored.sources, is_source))
        require_equal(is_shared ? "--storage-iteration" : "--iteration", "unknown", std::to_string(*given));
}

}  // namespace

void check_request(const PlanOptions& options, const formats::PlanFile& plan) { RequestCheck{options, plan}.run(); }

}  // namespace tpx::cli
