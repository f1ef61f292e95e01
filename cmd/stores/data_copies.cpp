// SPDX-License-Identifier: Apache-2.0
#include "cmd/stores/data_copies.hpp"

#include "cmd/hosts/migrate_run.hpp"
#include "cmd/jobs/disk_space.hpp"
#include "cmd/output/output_file.hpp"
#include "cmd/stores/data_stores.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"
#include "lib/exec/draft_files.hpp"
#include "lib/exec/file_crcs.hpp"
#include "lib/exec/remove.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;

/// Throws Error (usage) if one of two folders is inside the other: a managed store removes files that it does not know.
void check_apart(const fs::path& data, const fs::path& store) {
    const fs::path a = resolved(data), b = resolved(store);
    const auto differ = std::ranges::mismatch(a, b);
    if (differ.in1 == a.end() || differ.in2 == b.end())
        throw usage_error("--data-store: {} and the store {} must not contain each other", data.string(),
                          store.string());
}

/// The files that some of `members` lack, in batches. All hosts together write at most `most` bytes of a batch, or more
/// if it is a single file. An interrupted run keeps complete batches.
std::vector<std::vector<std::size_t>> batches_of(const DataStores& stores, const std::vector<bool>& members,
                                                 std::uint64_t most) {
    std::vector<std::vector<std::size_t>> batches;
    std::uint64_t bytes = 0;
    for (std::size_t f = 0; f < stores.count(); ++f) {
        std::uint64_t own = 0;
        bool is_missing = false;
        for (std::size_t h = 0; h < members.size(); ++h) {
            if (!members[h] || stores.is_in_store(h, f)) continue;
            is_missing = true;
            own += stores.size(f);
        }
        if (!is_missing) continue;
        if (batches.empty() || bytes + own > most) {
            batches.emplace_back();
            bytes = 0;
        }
        batches.back().push_back(f);
        bytes += own;
    }
    return batches;
}

/// Plans the copies of `files`.
Migration plan_batch(const ManagedRun& run, const DataStores& stores, const std::vector<bool>& members,
                     const std::vector<std::size_t>& files) {
    Migration job;
    job.origin = {.named = run.options.data_store, .folder = stores.folder(), .own = stores.folder(), .files = {}};
    job.opened.source.checkpoint.catalogue.directory = stores.folder();
    for (const std::size_t f : files) {
        const auto number = static_cast<std::uint32_t>(job.holders.size());
        const auto size = static_cast<Index>(stores.size(f));
        job.holders.push_back(stores.holders(f));
        job.opened.source.checkpoint.catalogue.files.push_back({stores.source(f), stores.size(f)});
        job.conversion.draft.files.push_back({stores.path(f), stores.size(f)});
        const Tensor whole{stores.path(f).string(), DType::u8, Shape(1, size)};
        for (auto* tensors :
             {&job.conversion.source_tensors, &job.conversion.target_tensors, &job.conversion.draft.tensors})
            tensors->push_back(whole);
        if (size == 0) continue;
        const Piece piece{
            .tensor = number, .file = number, .box = tpx::whole(whole.shape), .strides = row_major(whole.shape)};
        for (auto* pieces :
             {&job.conversion.source_pieces, &job.conversion.target_pieces, &job.conversion.draft.pieces})
            pieces->push_back(piece);
    }
    for (std::size_t h = 0; h < members.size(); ++h) {
        job.files_of_hosts.emplace_back();
        for (const std::size_t f : files) job.files_of_hosts.back().push_back(members[h] && !stores.is_in_store(h, f));
    }
    plan_host_transfers(run.options, job, run.team.hosts);
    return job;
}

/// For each file of the batch, the checksums that hosts computed while they wrote it, by host. Collective.
std::vector<std::map<std::size_t, std::uint64_t>> written_crcs(const ManagedRun& run, const Migration& job,
                                                               const FileCrcs& crcs) {
    const std::size_t files = job.conversion.draft.files.size();
    std::vector<std::uint64_t> all(files * run.team.hosts.size());
    const std::vector<bool>& here = job.files_of_hosts[run.team.host];
    std::uint32_t drafted = 0;
    for (std::size_t f = 0; f < files; ++f) {
        if (!here[f]) continue;
        const std::uint32_t file = drafted++;
        if (run.team.is_first(run.comm.rank())) all[run.team.host * files + f] = crcs.value(file);
    }
    mpi::all_sum(run.comm, all);
    std::vector<std::map<std::size_t, std::uint64_t>> by_file(files);
    for (std::size_t h = 0; h < run.team.hosts.size(); ++h)
        for (std::size_t f = 0; f < files; ++f)
            if (job.files_of_hosts[h][f]) by_file[f][h] = all[h * files + f];
    return by_file;
}

/// Removes the folder `incoming`, including files that a killed run left in it.
void remove_incoming(const ManagedRun& run, const fs::path& incoming) {
    if (run.host.rank() != 0 || !entry_exists(incoming)) return;
    if (const std::string fault = remove_tree(incoming); !fault.empty()) throw failure("{}", fault);
}

/// Moves the files that this host has received into its data store, and records their checksums from `written`.
void publish_batch(const ManagedRun& run, const DataStores& stores, const Migration& job,
                   const std::vector<std::size_t>& files,
                   const std::vector<std::map<std::size_t, std::uint64_t>>& written) {
    std::vector<std::size_t> own;
    std::vector<std::uint64_t> own_crcs;
    for (std::size_t k = 0; k < files.size(); ++k) {
        if (!job.files_of_hosts[run.team.host][k]) continue;
        own.push_back(files[k]);
        own_crcs.push_back(written[k].at(run.team.host));
    }
    if (!own.empty()) stores.publish(own, own_crcs);
}

/// Copies the files of a batch to `incoming`, and then into the data stores. `part` has the files of this host.
void copy_through(const ManagedRun& run, const DataStores& stores, const Migration& job,
                  const std::vector<std::size_t>& files, HostPart& part, const fs::path& incoming) {
    ExecOptions exec = limits_of(run.comm, run.options, job);
    FileCrcs crcs{part.draft};
    exec.file_crcs = &crcs;
    exec.cancelled = run.signal();
    const HostRun host_run{run.comm, run.host, run.team, job, part};
    ReadRecord record;  // empty: data files are checked by size and time
    record.seal();
    make_files(host_run, incoming, record, exec);
    run_together(run.comm, [&] { DraftFiles{run.host, part.draft, incoming}.rename_to_final(); });
    run_together(run.comm, [&] { crcs.combine(run.host); });
    const auto written = written_crcs(run, job, crcs);
    mpi::all_or_none(run.comm, [&] { stores.check_sources(files); });
    for (std::size_t k = 0; k < files.size(); ++k) stores.require_same(files[k], written[k]);
    mpi::all_or_none(run.comm, [&] {
        if (run.host.rank() == 0) publish_batch(run, stores, job, files, written);
    });
}

/// Copies the files of a batch into the data stores. Collective.
void copy_batch(const ManagedRun& run, DataStores& stores, const Migration& job,
                const std::vector<std::size_t>& files) {
    std::optional<HostPart> part;
    fs::path incoming;
    mpi::all_or_none(run.comm, [&] {
        part.emplace(part_of_host(job, run.team.host, {}));
        if (run.host.rank() == 0 && !part->draft.files.empty()) stores.create();
    });
    mpi::all_or_none(run.comm, [&] {
        // A host that gets no file still needs a folder for its messages, but no data store.
        incoming = part->draft.files.empty() ? run.store.staging(incoming_name) : stores.incoming();
        remove_incoming(run, incoming);
        if (run.host.rank() != 0) return;
        make_directories(incoming);
        if (::chmod(incoming.c_str(), 0700) != 0) throw system_failure(incoming, errno);
        check_disk_space(incoming, bytes_on_disk(incoming, part->draft.files, part->inbox.size()),
                         incoming.parent_path(), incoming_name, "");
    });
    try {
        copy_through(run, stores, job, files, *part, incoming);
    } catch (const mpi::AgreedError& error) {
        if (run.host.rank() == 0) remove_tree(incoming);
        throw mpi::AgreedError{
            Error{error.exit(), "{}; data files that are complete stay in {}", error.what(), run.options.data_store}};
    }
    mpi::all_or_none(run.comm, [&] { remove_incoming(run, incoming); });
}

/// Checks the paths of the files that this host gets, before any file moves.
void check_own_places(const ManagedRun& run, const DataStores& stores, const std::vector<bool>& members) {
    std::vector<std::size_t> own;
    for (std::size_t f = 0; f < stores.count(); ++f)
        if (members[run.team.host] && !stores.is_in_store(run.team.host, f)) own.push_back(f);
    stores.check_places(own);
}

/// Copies the data files of `position` that hosts in `members` lack. Collective.
DataCopies copy_data_files(const ManagedRun& run, const formats::DataPosition& position,
                           const std::vector<bool>& members) {
    constexpr std::uint64_t batch_bytes = std::uint64_t{1} << 30;
    std::optional<DataStores> stores;
    mpi::all_or_none(run.comm, [&] {
        stores.emplace(run, position);
        check_apart(stores->folder(), run.store.folder());
    });
    stores->survey();
    DataCopies copies{.files = stores->count()};
    for (std::size_t f = 0; f < stores->count(); ++f) {
        copies.bytes += stores->size(f);
        stores->require_same(f, {});
        for (std::size_t h = 0; h < members.size(); ++h)
            if (members[h] && !stores->is_in_store(h, f)) copies.missing += stores->size(f);
    }
    const std::vector<std::vector<std::size_t>> batches = batches_of(*stores, members, batch_bytes);
    mpi::all_or_none(run.comm, [&] {
        if (run.host.rank() == 0) check_own_places(run, *stores, members);
    });
    for (const std::vector<std::size_t>& files : batches) {
        std::optional<Migration> job;
        mpi::all_or_none(run.comm, [&] { job.emplace(plan_batch(run, *stores, members, files)); });
        copies.crossing += job->change.relocation.total.other_host;
        if (!run.options.dry_run) copy_batch(run, *stores, *job, files);
    }
    return copies;
}

}  // namespace

void check_data_store(const MigrateRequest& request) {
    if (request.data_store.empty()) return;
    if (request.store.empty()) throw usage_error("--data-store: requires --store");
    if (!request.export_to.empty()) throw usage_error("--data-store cannot be used with --export");
    if (request.data_store.find("{host}") == std::string::npos)
        throw usage_error("--data-store: '{}' must contain {{host}}", request.data_store);
}

std::optional<DataCopies> copy_data_of_current(const ManagedRun& run, const nlohmann::ordered_json& position,
                                               const RankPlaces* places) {
    if (run.options.data_store.empty()) return std::nullopt;
    if (position.is_null()) throw mpi::AgreedError{usage_error("--data-store: the current state has no data position")};
    if (places == nullptr)
        throw mpi::AgreedError{usage_error(
            "--data-store: a rank of the current state has no device on these hosts; use --to to place it")};
    std::vector<bool> members(run.team.hosts.size());
    for (const std::uint32_t host : places->host_of_rank) members[host] = true;
    return copy_data_files(run, formats::data_position_of(position), members);
}

void copy_data(const ManagedRun& run, ManagedJob& job) {
    if (run.options.data_store.empty()) return;
    // A dry run may have planned on rank 0 only.
    std::string text;
    mpi::all_or_none(run.comm, [&] {
        if (run.comm.rank() != 0) return;
        if (!job.migration.position) throw usage_error("--data-store: the state has no data position; pass --data");
        text = nlohmann::json{{"position", to_json(*job.migration.position)}, {"hosts", hosts_of_ranks(job.migration)}}
                   .dump();
    });
    mpi::broadcast(run.comm, text);
    const auto json = nlohmann::ordered_json::parse(text);
    std::vector<bool> members(run.team.hosts.size());
    for (const std::uint32_t host : json.at("hosts")) members[host] = true;
    job.migration.data_copies = copy_data_files(run, formats::data_position_of(json.at("position")), members);
}

}  // namespace tpx::cli
