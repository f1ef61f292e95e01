// SPDX-License-Identifier: Apache-2.0
#include "cmd/check_copies.hpp"
#include "cmd/migrate.hpp"
#include "cmd/plan_hosts.hpp"
#include "formats/stores.hpp"
#include "formats/stores_check.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/fingerprint.hpp"
#include "lib/core/host_name.hpp"
#include "lib/core/in_path.hpp"
#include "lib/exec/agreement.hpp"

#include <algorithm>
#include <set>

// What all ranks of tpx migrate must have in common.
namespace tpx::cli {
namespace {

namespace fs = std::filesystem;

/// With --emulate, ranks work for the hosts in turn; otherwise for the one that they run on.
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

/// The stores must hold parts of one checkpoint, as plan --stores demands it too.
void check_stores(const mpi::Comm& comm, const MigrateOptions& options, const Migration& job, const Mirror& mirror,
                  const Crew& crew) {
    const formats::Checkpoint& checkpoint = job.opened.source.checkpoint;
    std::set<fs::path> payload;
    for (const Piece& piece : checkpoint.catalogue.pieces) payload.insert(checkpoint.catalogue.path(piece.file));
    std::set<int> stores;
    for (const StoredFile& file : mirror.files()) stores.insert(file.hosts.begin(), file.hosts.end());
    if (stores.size() < 2) return;
    mpi::all_or_none(comm, [&] {
        for (std::size_t k = 0; k < mirror.files().size(); ++k) {
            const StoredFile& file = mirror.files()[k];
            if (!mirror.was_read(k) || payload.contains(mirror.folder() / file.path)) continue;
            for (int host : stores) {
                if (std::ranges::binary_search(file.hosts, host)) continue;
                throw failure(
                    "{}: is missing, so that nothing shows that the files of host '{}' belong to those of the "
                    "other stores; copy it from host '{}' if they do",
                    (formats::store_of(options.plan.stores, crew.hosts[host]) / file.path).string(),
                    crew.hosts[host].name, crew.hosts[file.hosts.front()].name);
            }
        }
    });
    mpi::all_or_none(comm, [&] {
        if (checkpoint.iteration || !stores.contains(static_cast<int>(crew.host))) return;
        if (crew.rank_of_host[crew.host] != comm.rank()) return;
        formats::check_store_digests(formats::store_of(options.plan.stores, crew.hosts[crew.host]),
                                     checkpoint.catalogue.directory.lexically_relative(mirror.folder()));
    });
}

}  // namespace

Crew crew_of(const mpi::Comm& comm, const MigrateOptions& options) {
    Crew crew;
    mpi::all_or_none(comm, [&] {
        crew.hosts = given_hosts(options.plan, 1);
        crew.host = static_cast<std::uint32_t>(host_of_this_rank(comm, crew.hosts, options.emulate));
        if (crew.hosts[crew.host].lost)
            throw Error{Exit::usage, "runs on host '{}', which is lost (--lost)", crew.hosts[crew.host].name};
    });
    std::string names;
    for (const Host& host : crew.hosts) names += fmt::format("{} with {}, ", host.name, counted(host.gpus, "device"));
    require_same(comm, {{"the hosts", names, {}}});
    crew.rank_of_host.assign(crew.hosts.size(), -1);
    const std::vector<std::string> all = mpi::all_gather(comm, std::to_string(crew.host));
    for (int rank = comm.size() - 1; rank >= 0; --rank)
        crew.rank_of_host[std::stoul(all[static_cast<std::size_t>(rank)])] = rank;
    for (std::size_t h = 0; h < crew.hosts.size(); ++h) {
        if (crew.rank_of_host[h] < 0 && !crew.hosts[h].lost)
            throw mpi::AgreedError{
                Error{Exit::usage,
                      "no process runs on host '{}'; start one on each host that is not lost, such as with "
                      "mpirun --map-by node",
                      crew.hosts[h].name}};
    }
    return crew;
}

std::uint64_t agreed_request(const mpi::Comm& comm, const MigrateOptions& options, const Migration& job,
                             const ReadRecord& record, bool is_first_of_host) {
    Fingerprint plan;
    plan.add(options.plan.stores);
    plan.add(options.output);
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

Migration agreed_migration(const mpi::Comm& comm, const MigrateOptions& options, const Crew& crew, Mirror& mirror) {
    Migration job;
    const auto named = [&](const Error& error) {
        std::string text = error.what();
        const std::string folder = mirror.folder().string();
        for (std::size_t at = text.find(folder); at != text.npos; at = text.find(folder, at + 1))
            text.replace(at, folder.size(), options.plan.stores);
        if (!options.plan.lost.empty()) text += "; stores of lost hosts are not read";
        return Error{error.exit(), "{}", text};
    };
    mirror.read([&] {
        try {
            if (mirror.files().empty())
                throw failure("no store of {} has any file", counted(crew.hosts.size(), "host"));
            job = in_path(mirror.folder().string(), [&] { return plan_migration(options, crew.hosts, mirror); });
        } catch (const Error& error) {
            throw named(error);
        }
    });
    check_stores(comm, options, job, mirror, crew);
    if (!job.conversion.dropped_copies.empty())
        mirror.read_on_first([&] { check_copies({}, job.conversion, job.opened.source.checkpoint.catalogue, {}); });
    return job;
}

}  // namespace tpx::cli
