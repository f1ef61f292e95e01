// SPDX-License-Identifier: Apache-2.0
#include "cmd/stores/store_switch.hpp"

#include "cmd/hosts/migrate_run.hpp"
#include "cmd/stores/store_refusals.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"
#include "lib/core/write_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <optional>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;
using formats::SwitchRecord;
using SwitchPhase = SwitchRecord::SwitchPhase;

fs::path shared_decision(const SwitchRecord& record) {
    return fs::path{record.decision_dir} / fmt::format("tpx-decision-{}-{}.json", record.change, record.epoch);
}

SwitchRecord saying(SwitchRecord record, SwitchPhase phase) {
    record.phase = phase;
    return record;
}

/// Runs `body` on the rank that acts for each member; fails on all ranks if it fails on any.
template <class Body>
void on_members(const mpi::Comm& comm, const Team& team, const std::vector<bool>& members, Body&& body) {
    mpi::all_or_none(comm, [&] {
        if (team.is_first(comm.rank()) && members[team.host]) body();
    });
}

void write_shared(const mpi::Comm& comm, const SwitchRecord& record) {
    mpi::all_or_none(comm, [&] {
        if (comm.rank() == 0 && !record.decision_dir.empty())
            write_file(shared_decision(record), formats::to_text(record));
    });
}

/// Removes the decision on a switch that all hosts have finished. If this fails, the file does no harm.
void remove_shared(const mpi::Comm& comm, const SwitchRecord& record) {
    if (comm.rank() == 0 && !record.decision_dir.empty()) ::unlink(shared_decision(record).c_str());
}

/// Records the decision in the stores of all members. Returns how many succeeded; `fault` becomes the cause of a
/// failure.
std::size_t record_decision(const mpi::Comm& comm, const Team& team, const NodeStore& store, const Switch& change,
                            const SwitchRecord& decision, std::string& fault) {
    std::uint64_t count = 0;
    if (team.is_first(comm.rank()) && change.members[team.host]) {
        try {
            mpi::run_watched([&] { store.write(decision); });
            count = 1;
        } catch (const Error& error) {
            fault = error.what();
        }
    }
    mpi::all_sum(comm, std::span{&count, 1});
    for (const std::string& each : mpi::all_gather(comm, fault))
        if (fault.empty()) fault = each;
    return count;
}

void roll_back(const mpi::Comm& comm, const Team& team, const NodeStore& store, const Switch& change) {
    const SwitchRecord abort = saying(change.record, SwitchPhase::abort);
    write_shared(comm, abort);
    on_members(comm, team, change.members, [&] { store.write(abort); });
    on_members(comm, team, change.members, [&] {
        store.return_to_staging(change.record.change,
                                change.record.state);  // so that the same command does not write it again
        store.remove_prepared();
    });
    remove_shared(comm, abort);
}

/// Also records the decision in the stores of hosts that do not get the new state, such as leaving hosts, so that a run
/// on these hosts only does not take their older state for the newest. If that fails, the change is still complete.
void fence_others(const mpi::Comm& comm, const Team& team, const NodeStore& store, const Switch& change,
                  const SwitchRecord& commit) {
    if (!team.is_first(comm.rank()) || change.members[team.host] || !path_is_directory(store.folder())) return;
    try {
        mpi::run_watched([&] {
            const auto decision = store.decision();
            if (!store.prepared() && (!decision || decision->epoch < commit.epoch)) store.write(commit);
        });
    } catch (const Error&) {
    }
}

void apply(const mpi::Comm& comm, const Team& team, const NodeStore& store, const Switch& change) {
    try {
        on_members(comm, team, change.members, [&] {
            if (store.linked_state() != change.record.state) store.make_current(change.record.state);
            store.remove_prepared();
        });
    } catch (const mpi::AgreedError& error) {
        throw mpi::AgreedError{
            Error{exit_after_commit, "{}; the change is decided: run the same command to complete it", error.what()}};
    }
}

/// Whether all hosts of the new state take part in this run and have applied the switch `change`. `hosts` are the
/// summaries from before it was applied. Collective.
bool is_on_all_hosts(const mpi::Comm& comm, const Team& team, const NodeStore& store,
                     const std::vector<StoreSummary>& hosts, const Switch& change) {
    const auto member = std::ranges::find(change.members, true) - change.members.begin();
    const int reader = team.rank_of_host[static_cast<std::size_t>(member)];
    std::string text;
    mpi::all_or_none(comm, [&] {
        try {
            if (comm.rank() == reader) text = formats::to_text(store.manifest(change.record.state));
        } catch (const Error&) {  // the manifest is damaged, so the hosts are unknown
        }
    });
    mpi::broadcast(comm, text, reader);
    if (text.empty()) return false;
    const formats::Manifest manifest = formats::parse_manifest(text, change.record.state);
    return std::ranges::all_of(manifest.hosts, [&](const formats::ManifestHost& host) {
        const auto here = std::ranges::find(team.hosts, host.name, &Host::name);
        const auto h = static_cast<std::size_t>(here - team.hosts.begin());
        return here != team.hosts.end() && (change.members[h] || hosts[h].current == change.record.state);
    });
}

/// Whether the switch is committed: a host has applied it, or a commit and no abort is recorded. An abort is recorded
/// only if no host has applied the switch.
bool is_committed(const Switch& change, const std::vector<StoreSummary>& hosts,
                  const std::optional<SwitchRecord>& shared) {
    const auto any = [&](auto&& is) { return std::ranges::any_of(hosts, is); };
    const auto decided = [&](SwitchPhase phase) {
        return (shared && shared->is_of(change.record) && shared->phase == phase) || any([&](const StoreSummary& host) {
                   return host.decision && host.decision->is_of(change.record) && host.decision->phase == phase;
               });
    };
    // A host whose store has another history can have a state with the same name.
    if (any([&](const StoreSummary& host) {
            return host.fault.empty() && host.current == change.record.state && host.change == change.record.change;
        }))
        return true;
    return !decided(SwitchPhase::abort) && decided(SwitchPhase::commit);
}

/// The last switch that was begun, unless a host has a later state.
std::optional<Switch> unfinished_switch(const Team& team, const std::vector<StoreSummary>& hosts,
                                        const std::vector<std::string>& outdated) {
    const auto is_outdated = [&](std::size_t h) {
        return std::ranges::find(outdated, team.hosts[h].name) != outdated.end();
    };
    std::optional<Switch> found;
    std::uint64_t latest = 0;
    for (std::size_t h = 0; h < hosts.size(); ++h)
        if (!is_outdated(h)) latest = std::max(latest, hosts[h].epoch);
    for (std::size_t h = 0; h < hosts.size(); ++h) {
        if (is_outdated(h) || !hosts[h].prepared || hosts[h].prepared->epoch < latest) continue;
        if (!found || hosts[h].prepared->epoch > found->record.epoch)
            found = Switch{*hosts[h].prepared, std::vector<bool>(hosts.size())};
    }
    if (!found) return found;
    for (std::size_t h = 0; h < hosts.size(); ++h)
        found->members[h] = hosts[h].prepared && hosts[h].prepared->is_of(found->record);
    return found;
}

/// Ends the switch `change` that was interrupted, if there is one. Returns a note, which is empty if there is none.
std::string end_switch(const mpi::Comm& comm, const Team& team, const NodeStore& store,
                       const std::vector<StoreSummary>& hosts, const std::optional<Switch>& change) {
    if (!change) return {};
    std::string shared;
    mpi::all_or_none(comm, [&] {
        const SwitchRecord& record = change->record;
        if (comm.rank() != 0 || record.decision_dir.empty()) return;
        if (!path_is_directory(record.decision_dir))
            throw failure("{}: is missing, but contains the decision on an unfinished change", record.decision_dir);
        if (path_is_file(shared_decision(record)))
            shared = formats::to_text(*formats::read_record(shared_decision(record)));
    });
    mpi::broadcast(comm, shared);
    std::optional<SwitchRecord> decision;
    if (!shared.empty()) decision = formats::parse_record(shared, shared_decision(change->record));
    if (!is_committed(*change, hosts, decision)) {
        roll_back(comm, team, store, *change);
        return fmt::format("an earlier change to {} had not been decided: it was rolled back", change->record.state);
    }
    const SwitchRecord commit = saying(change->record, SwitchPhase::commit);
    write_shared(comm, commit);
    on_members(comm, team, change->members, [&] { store.write(commit); });
    fence_others(comm, team, store, *change, commit);
    apply(comm, team, store, *change);
    if (is_on_all_hosts(comm, team, store, hosts, *change)) remove_shared(comm, commit);
    return fmt::format("an earlier change to {} had been decided: it was completed", change->record.state);
}

}  // namespace

void switch_stores(const mpi::Comm& comm, const Team& team, const NodeStore& store, const Switch& change) {
    on_members(comm, team, change.members, [&] {
        store.write(saying(change.record, SwitchPhase::prepared));
        store.promote_staged_state(change.record.change, change.record.state);
    });
    const SwitchRecord commit = saying(change.record, SwitchPhase::commit);
    write_shared(comm, commit);
    std::string fault;
    const std::size_t count = record_decision(comm, team, store, change, commit, fault);
    const auto members = static_cast<std::size_t>(std::ranges::count(change.members, true));
    if (change.record.decision_dir.empty() && 2 * count <= members) {
        roll_back(comm, team, store, change);
        throw mpi::AgreedError{
            failure("{}; the decision could be recorded on {} of {} hosts only; the stores are as "
                    "they were",
                    fault, count, members)};
    }
    fence_others(comm, team, store, change, commit);
    apply(comm, team, store, change);
    remove_shared(comm, commit);
}

std::string recover_switch(const mpi::Comm& comm, const Team& team, const NodeStore& store,
                           const std::vector<std::string>& outdated) {
    const std::vector<StoreSummary> hosts = gather_summaries(comm, team, store);
    require_records(team, hosts, outdated);
    return end_switch(comm, team, store, hosts, unfinished_switch(team, hosts, outdated));
}

void require_no_interrupted_switch(const mpi::Comm& comm, const Team& team, const NodeStore& store,
                                   const std::vector<std::string>& outdated, const std::string& pattern) {
    const std::vector<StoreSummary> hosts = gather_summaries(comm, team, store);
    require_records(team, hosts, outdated);
    if (const auto change = unfinished_switch(team, hosts, outdated))
        throw mpi::AgreedError{
            failure("{}: a change to {} was interrupted; run tpx migrate without --dry-run to end it, then try again",
                    pattern, change->record.state)};
}

}  // namespace tpx::cli
