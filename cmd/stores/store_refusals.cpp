// SPDX-License-Identifier: Apache-2.0
#include "cmd/stores/store_refusals.hpp"

#include "formats/files/plan/host_names.hpp"
#include "lib/core/error.hpp"
#include "lib/exec/agreement.hpp"

#include <algorithm>

namespace tpx::cli {
namespace {

/// The value of --rejoin that names the hosts `numbers` and those that it already names, `outdated`.
std::string names_to_rejoin(const Team& team, const std::vector<std::size_t>& numbers,
                            const std::vector<std::string>& outdated) {
    std::vector<std::string> names;
    for (std::size_t h = 0; h < team.hosts.size(); ++h)
        if (std::ranges::count(numbers, h) > 0 || std::ranges::count(outdated, team.hosts[h].name) > 0)
            names.push_back(team.hosts[h].name);
    return formats::fold_host_names(names);
}

std::string epoch_of(const StoreSummary& host) {
    return fmt::format("epoch {} (iteration {})", host.epoch, host.iteration);
}

/// "hosts 'host1' and 'host2' are outdated: ...", of hosts with older epochs than host number `newest`.
std::string in_words_outdated(const Team& team, const std::vector<StoreSummary>& hosts, std::size_t newest,
                              const std::vector<std::size_t>& others) {
    std::string names, epochs;
    for (std::size_t h : others) {
        names += fmt::format("{}'{}'", names.empty() ? "" : ", ", team.hosts[h].name);
        if (epochs.find(epoch_of(hosts[h])) == epochs.npos)
            epochs += fmt::format("{}{}", epochs.empty() ? "" : " and ", epoch_of(hosts[h]));
    }
    const bool one = others.size() == 1;
    return fmt::format("{} {} {} outdated: {} {} {}, host '{}' has {}", one ? "host" : "hosts", names,
                       one ? "is" : "are", one ? "its store" : "their stores", one ? "has" : "have", epochs,
                       team.hosts[newest].name, epoch_of(hosts[newest]));
}

/// More advice if one of `others`, whose stores are otherwise to be treated as empty, has a later iteration than host
/// number `newest`: names the host with the latest iteration, and how to continue from it. Empty if none has.
std::string later_iteration(const Team& team, const std::vector<StoreSummary>& hosts, std::size_t newest,
                            const std::vector<std::size_t>& others, const std::vector<std::string>& outdated) {
    const std::size_t latest = *std::ranges::max_element(others, {}, [&](std::size_t h) { return hosts[h].iteration; });
    if (hosts[latest].iteration <= hosts[newest].iteration) return {};
    std::vector<std::size_t> earlier;
    for (std::size_t h = 0; h < hosts.size(); ++h)
        if (!hosts[h].current.empty() && hosts[h].fault.empty() && hosts[h].digest != hosts[latest].digest)
            earlier.push_back(h);
    return fmt::format(
        "; the state on host '{}' has the later iteration {}: to continue from this one, pass --rejoin "
        "{} instead",
        team.hosts[latest].name, hosts[latest].iteration, names_to_rejoin(team, earlier, outdated));
}

/// "host 'host0': its store was switched to ..., but ...".
std::string in_words_lost_state(const std::string& host, const StoreSummary& summary) {
    const auto& decision = summary.decision;
    const bool is_beside =
        !summary.current.empty() && summary.fault.empty() && !(decision && decision->state == summary.last_state);
    const std::string now =
        summary.current.empty() ? "it has no current state" : fmt::format("its current state is {}", summary.current);
    return fmt::format("host '{}': its store {} {} (epoch {}), but {}", host,
                       is_beside ? "contains the newer state" : "was switched to", summary.last_state,
                       summary.last_epoch, summary.fault.empty() ? now : summary.fault);
}

}  // namespace

void refuse_other_states(const Team& team, const std::vector<StoreSummary>& hosts, std::size_t newest,
                         const std::vector<std::size_t>& others, const std::vector<std::string>& outdated) {
    const StoreSummary& a = hosts[newest];
    const std::string& first = team.hosts[newest].name;
    const std::string rejoin = names_to_rejoin(team, others, outdated);
    const char* empty = others.size() == 1 ? "to treat its store as empty" : "to treat their stores as empty";
    const auto other_job = std::ranges::find_if(others, [&](std::size_t h) { return hosts[h].job != a.job; });
    if (other_job != others.end())
        throw mpi::AgreedError{
            failure("the stores contain different jobs: '{}' on host '{}', '{}' on host '{}'; use another --store, or "
                    "--rejoin {} {}",
                    a.job, first, hosts[*other_job].job, team.hosts[*other_job].name, rejoin, empty)};
    const std::string later = later_iteration(team, hosts, newest, others, outdated);
    const auto other_state = std::ranges::find_if(others, [&](std::size_t h) { return hosts[h].epoch == a.epoch; });
    if (other_state == others.end())
        throw mpi::AgreedError{
            failure("{}; pass --rejoin {} {}{}", in_words_outdated(team, hosts, newest, others), rejoin, empty, later)};
    throw mpi::AgreedError{
        failure("the stores contain different states of epoch {}: iteration {} on host '{}', iteration {} on host "
                "'{}'; pass --rejoin {} {}{}",
                a.epoch, a.iteration, first, hosts[*other_state].iteration, team.hosts[*other_state].name, rejoin,
                empty, later)};
}

void refuse_lost_states(const Team& team, const std::vector<StoreSummary>& hosts, std::size_t newest,
                        const std::vector<std::size_t>& lacking, const std::vector<std::string>& outdated) {
    std::string lost;
    for (std::size_t h : lacking)
        lost += (lost.empty() ? "" : "; ") + in_words_lost_state(team.hosts[h].name, hosts[h]);
    const bool one = lacking.size() == 1;
    throw mpi::AgreedError{
        Error{Exit::no,
              "{}; the newest usable state is {} (epoch {}) on host '{}'; restore {}, or pass --rejoin {} to treat {} "
              "as empty",
              lost, hosts[newest].current, hosts[newest].epoch, team.hosts[newest].name,
              one ? "the store" : "these stores", names_to_rejoin(team, lacking, outdated), one ? "it" : "them"}};
}

void require_records(const Team& team, const std::vector<StoreSummary>& hosts,
                     const std::vector<std::string>& outdated) {
    std::string faults;
    std::vector<std::size_t> damaged;
    for (std::size_t h = 0; h < hosts.size(); ++h) {
        const std::string& name = team.hosts[h].name;
        if (hosts[h].record_fault.empty() || std::ranges::find(outdated, name) != outdated.end()) continue;
        faults += fmt::format("{}host '{}': {}", faults.empty() ? "" : "; ", name, hosts[h].record_fault);
        damaged.push_back(h);
    }
    if (damaged.empty()) return;
    throw mpi::AgreedError{Error{Exit::no, "{}; pass --rejoin {} to treat {} as empty", faults,
                                 names_to_rejoin(team, damaged, outdated),
                                 damaged.size() == 1 ? "its store" : "their stores"}};
}

}  // namespace tpx::cli
