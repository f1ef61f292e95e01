// SPDX-License-Identifier: Apache-2.0
#include "cmd/hosts/migration.hpp"
#include "cmd/jobs/check_copies.hpp"
#include "cmd/plan/plan_hosts.hpp"
#include "formats/files/merged_stores.hpp"
#include "formats/files/plan/host_names.hpp"
#include "formats/files/stores_check.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/fingerprint.hpp"
#include "lib/core/host_name.hpp"
#include "lib/core/in_path.hpp"
#include "lib/exec/agreement.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

// What all ranks of tpx migrate must agree on.
namespace tpx::cli {
namespace {

namespace fs = std::filesystem;

/// The host that this rank acts for: the host that it runs on or, with --emulate, one of the hosts in turn.
int host_of_this_rank(const mpi::Comm& comm, const std::vector<Host>& hosts, bool emulate) {
    if (emulate) {
        std::vector<int> here;
        for (int h = 0; h < std::ssize(hosts); ++h)
            if (!hosts[h].lost) here.push_back(h);
        return here[static_cast<std::size_t>(comm.rank()) % here.size()];
    }
    const std::string full = host_name(), name = full.substr(0, full.find('.'));
    for (int h = 0; h < std::ssize(hosts); ++h)
        if (hosts[h].name == full || hosts[h].name == name) return h;
    throw Error{Exit::usage, "runs on '{}', which is not one of the {}; run a process on each host of --hosts", full,
                counted(hosts.size(), "host")};
}

/// Marks all devices of the hosts in `names` as lost: their stores are read, but their devices get no ranks.
void mark_leaving(std::vector<Host>& hosts, const std::string& names) {
    if (names.empty()) return;
    for (const std::string& name : distinct_names(names, "--leaving")) {
        const auto host = std::ranges::find(hosts, name, &Host::name);
        if (host == hosts.end()) throw Error{Exit::usage, "--leaving: no host is called '{}'", name};
        if (host->lost) throw Error{Exit::usage, "host '{}' cannot be lost and leaving at the same time", name};
        host->lost_devices.resize(static_cast<std::size_t>(host->gpus));
        std::iota(host->lost_devices.begin(), host->lost_devices.end(), 0);
    }
}

}  // namespace

Team team_of(const mpi::Comm& comm, const MigrateRequest& options) {
    Team team;
    mpi::all_or_none(comm, [&] {
        team.hosts = hosts_from_options(options.plan, 1);
        mark_leaving(team.hosts, options.leaving);
        team.host = static_cast<std::uint32_t>(host_of_this_rank(comm, team.hosts, options.emulate));
        if (team.hosts[team.host].lost)
            throw Error{Exit::usage, "runs on host '{}', which is lost (--lost)", team.hosts[team.host].name};
    });
    std::string names;
    for (const Host& host : team.hosts) names += fmt::format("{} with {}, ", host.name, counted(host.gpus, "device"));
    require_same(comm, {{"the hosts", names, {}}});
    team.rank_of_host.assign(team.hosts.size(), -1);
    const std::vector<std::string> all = mpi::all_gather(comm, std::to_string(team.host));
    for (int rank = comm.size() - 1; rank >= 0; --rank)
        team.rank_of_host[std::stoul(all[static_cast<std::size_t>(rank)])] = rank;
    for (std::size_t h = 0; h < team.hosts.size(); ++h) {
        if (team.rank_of_host[h] < 0 && !team.hosts[h].lost)
            throw mpi::AgreedError{Error{Exit::usage, "no process runs on host '{}'; start {}", team.hosts[h].name,
                                         options.emulate
                                             ? fmt::format("at least {} processes, one for each host that is not lost",
                                                           std::ranges::count(team.hosts, false, &Host::lost))
                                             : "one on each host that is not lost, such as with mpirun --map-by node"}};
    }
    return team;
}

std::uint64_t agreed_request_digest(const mpi::Comm& comm, const Migration& job, std::string_view salt,
                                    const ReadRecord& record, bool is_first_of_host) {
    Fingerprint plan;
    plan.add(salt);
    plan.add(to_string(job.target.layout));
    plan.add(catalogue_digest(job.opened.source.checkpoint.catalogue));
    for (const Transfer& transfer : job.change.relocation.transfers)
        for (std::uint64_t number : {std::uint64_t{transfer.parcel}, std::uint64_t{transfer.from},
                                     std::uint64_t{transfer.to}, transfer.begin, transfer.end})
            plan.add(number);
    for (const FileEntry& file : job.conversion.draft.files) {
        plan.add(file.path.string());
        plan.add(file.size);
    }
    for (const std::vector<bool>& files : job.files_of_hosts)
        for (bool has : files) plan.add(std::uint64_t{has});
    for (const Draft::Fixed& fixed : job.conversion.draft.fixed) {
        plan.add(fixed.file);
        plan.add(fixed.offset);
        plan.add(fixed.bytes);
    }
    require_same(comm, {{"the plan", std::to_string(plan.value()), {}}});
    Fingerprint files;
    for (const auto& [path, file] : record.files()) {
        files.add(path.string());
        files.add(file.inode);
        files.add(static_cast<std::uint64_t>(file.changed));
    }
    std::uint64_t sum = is_first_of_host ? files.value() : 0;
    mpi::all_sum(comm, std::span{&sum, 1});
    plan.add(sum);
    return plan.value();
}

namespace {

/// Replaces the folder of the mirror in `text` with the store of the first host that has the named file or, if `text`
/// names no file, with the path of all stores, which contains {host}.
void name_stores(std::string& text, const Mirror& mirror, const MigrationSource& origin, const Team& team) {
    const std::string folder = mirror.folder().string();
    for (std::size_t at = text.find(folder); at != text.npos; at = text.find(folder, at + 1)) {
        const std::string_view rest = std::string_view{text}.substr(at + folder.size());
        const auto file = std::ranges::find_if(mirror.files(), [&](const StoredFile& it) {
            return !it.hosts.empty() && rest.starts_with(fmt::format("/{}:", it.path.string()));
        });
        text.replace(
            at, folder.size(),
            file == mirror.files().end()
                ? origin.named
                : formats::store_of(origin.named, team.hosts[static_cast<std::size_t>(file->hosts[0])]).string());
    }
}

/// "; the keepers of host0, host1 were killed", or nothing. Collective.
std::string killed_keepers(const mpi::Comm& comm, const Team& team, const MigrationSource& origin) {
    const bool is_killed = team.is_first(comm.rank()) && origin.held && origin.held->was_killed();
    std::vector<std::string> names = mpi::all_gather(comm, is_killed ? team.hosts[team.host].name : "");
    std::erase(names, "");
    if (names.empty()) return {};
    return fmt::format("; the {} of {} {} killed", names.size() == 1 ? "keeper" : "keepers", fmt::join(names, ", "),
                       names.size() == 1 ? "was" : "were");
}

/// `error` without the name of rank 0, which reads the files of all hosts to plan.
mpi::AgreedError without_rank(const mpi::AgreedError& error) {
    const std::string_view text = error.what(), rank = "rank 0: ";
    return mpi::AgreedError{Error{error.exit(), "{}", text.starts_with(rank) ? text.substr(rank.size()) : text}};
}

}  // namespace

Migration plan_from_mirror(const MigrateRequest& options, const Team& team, Mirror& mirror,
                           const MigrationSource& origin, MigrateTarget purpose, Planners planners) {
    Migration job;
    const std::string killed = killed_keepers(mirror.comm(), team, origin);
    const auto named = [&](const Error& error) {
        std::string text = error.what();
        name_stores(text, mirror, origin, team);
        if (!options.plan.lost.empty()) text += "; stores of lost hosts are not read";
        text += killed;
        return Error{error.exit(), "{}", text};
    };
    const auto plan = [&] {
        try {
            if (mirror.files().empty())
                throw failure("{}: no store of {} has any file", origin.named, counted(team.hosts.size(), "host"));
            job =
                in_path(mirror.folder().string(), [&] { return plan_migration(options, team.hosts, origin, purpose); });
        } catch (const Error& error) {
            throw named(error);
        }
    };
    try {
        planners == Planners::all ? mirror.read(plan) : mirror.rehearse_read(plan);
    } catch (const mpi::AgreedError& error) {
        throw without_rank(error);
    }
    std::uint64_t copies = job.conversion.dropped_copies.size();
    mpi::all_max(mirror.comm(), std::span{&copies, 1});
    if (copies > 0)
        mirror.read_on_first([&] { check_copies({}, job.conversion, job.opened.source.checkpoint.catalogue, {}); });
    job.planning.metadata = mirror.traffic();
    return job;
}

ContentCheck check_stores(const mpi::Comm& comm, const Migration& job, const Mirror& mirror, const Team& team) {
    const formats::Checkpoint& checkpoint = job.opened.source.checkpoint;
    std::set<fs::path> payload;
    for (const Piece& piece : checkpoint.catalogue.pieces) payload.insert(checkpoint.catalogue.path(piece.file));
    std::set<int> stores;
    for (const StoredFile& file : mirror.files()) stores.insert(file.hosts.begin(), file.hosts.end());
    if (stores.size() < 2) return [](const std::atomic<bool>*) {};
    mpi::all_or_none(comm, [&] {
        for (std::size_t k = 0; k < mirror.files().size(); ++k) {
            const StoredFile& file = mirror.files()[k];
            if (!mirror.was_read(k) || payload.contains(mirror.folder() / file.path)) continue;
            for (int host : stores) {
                if (std::ranges::binary_search(file.hosts, host)) continue;
                throw failure(
                    "{}: is missing, so that tpx cannot check that the files of host '{}' belong to the same "
                    "checkpoint as those of the other stores; copy it from host '{}' if they do",
                    (formats::store_of(job.origin.named, team.hosts[host]) / file.path).string(), team.hosts[host].name,
                    team.hosts[file.hosts.front()].name);
            }
        }
    });
    fs::path store = formats::store_of(job.origin.named, team.hosts[team.host]);
    const fs::path inside = checkpoint.catalogue.directory.lexically_relative(mirror.folder());
    const bool concerned = stores.contains(static_cast<int>(team.host)) && team.is_first(comm.rank());
    if (formats::identifies_save(checkpoint) || !concerned) store.clear();
    mpi::all_or_none(comm, [&] {
        if (!store.empty()) formats::require_store_digests(store, inside);
    });
    return [store, inside](const std::atomic<bool>* cancelled) {
        if (!store.empty()) formats::check_store_digests(store, inside, cancelled);
    };
}

}  // namespace tpx::cli
