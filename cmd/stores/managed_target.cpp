// SPDX-License-Identifier: Apache-2.0
#include "cmd/stores/managed_target.hpp"

#include "cmd/hosts/migrate_files.hpp"
#include "cmd/hosts/migrate_ranks.hpp"
#include "cmd/hosts/migrate_run.hpp"
#include "cmd/jobs/disk_space.hpp"
#include "cmd/stores/managed_check.hpp"
#include "cmd/stores/prune_stores.hpp"
#include "cmd/stores/staged_state.hpp"
#include "cmd/stores/store_checksums.hpp"
#include "cmd/stores/store_switch.hpp"
#include "formats/driver.hpp"
#include "lib/core/error.hpp"
#include "lib/core/fingerprint.hpp"
#include "lib/core/path.hpp"
#include "lib/exec/draft_files.hpp"
#include "lib/exec/journal.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;

/// By file of a draft: the indices of its tensors, ascending.
std::vector<std::vector<std::uint32_t>> tensors_of_files(const Draft& draft) {
    std::vector<std::vector<std::uint32_t>> tensors(draft.files.size());
    for (const Piece& piece : draft.pieces) tensors[piece.file].push_back(piece.tensor);
    for (std::vector<std::uint32_t>& own : tensors) {
        std::ranges::sort(own);
        own.erase(std::ranges::unique(own).begin(), own.end());
    }
    return tensors;
}

Naming naming_of(const ManagedRun& run, const fs::path& output, std::uint64_t request, const Draft& draft) {
    return {
        .out = output,
        .check_replaceable = [](const fs::path& occupant) { throw failure("{}: already exists", occupant.string()); },
        .source = run.options.store,
        .request = request,
        .restart = run.options.restart,
        .is_complete =
            [&draft](const fs::path& folder) {
                Draft all;
                all.files = draft.files;
                if (path_is_file(folder / formats::manifest_name))
                    all.files.push_back({formats::manifest_name, size_of_file(folder / formats::manifest_name)});
                return has_all_files(all, folder);
            }};
}

/// Throws Error if the store of this host has too little room for its files of the new state, which `manifest`
/// describes, and for what it receives. With `prune`, other states have been removed already.
void check_room_in_store(const NodeStore& store, const HostPart& part, const formats::Manifest& manifest, bool prune) {
    std::vector<FileEntry> files = part.draft.files;
    files.push_back({formats::manifest_name, formats::to_text(manifest).size()});
    check_disk_space(store.folder(), bytes_on_disk(store.folder(), files, part.inbox.size()),
                     store.staging(manifest.change).parent_path(), manifest.change,
                     prune ? "" : "; remove earlier states with tpx migrate --prune, or free other space");
}

/// Throws an mpi::AgreedError if `output` has too little room for the files of all hosts and for what they receive.
void check_room_for_export(const ManagedRun& run, const HostPart& part, const fs::path& output) {
    const fs::path parent = parent_of(output);
    std::uint64_t needed =
        run.host.rank() == 0 ? bytes_on_disk(parent, part.draft.files, part.inbox.size()) : std::uint64_t{0};
    mpi::all_sum(run.comm, std::span{&needed, 1});
    mpi::all_or_none(run.comm, [&] {
        if (run.comm.rank() == 0)
            check_disk_space(parent, needed, parent, output.filename().string() + ".partial-", "");
    });
}

/// Where this host keeps its journals of an export. Each host has its own folder, because all journals in a folder must
/// describe the same files, and each host writes different files. Collective.
JournalPlace journal_of_host(const ManagedRun& run, const PartialDirectory& partial, std::uint64_t request) {
    JournalPlace place{partial.path() / journal_folder / fmt::format("host{}", run.team.host), request, 0};
    std::string attempt = "0";
    mpi::all_or_none(run.comm, [&] {
        if (partial.attempt() > 0 && run.host.rank() == 0) attempt = std::to_string(next_attempt(place.output));
    });
    mpi::broadcast(run.host, attempt);
    place.attempt = std::stoi(attempt);
    return place;
}

/// By host of `team`: whether it is one of the hosts of `manifest`.
std::vector<bool> members_of(const Team& team, const formats::Manifest& manifest) {
    std::vector<bool> members(team.hosts.size());
    for (std::size_t h = 0; h < members.size(); ++h)
        members[h] =
            std::ranges::find(manifest.hosts, team.hosts[h].name, &formats::ManifestHost::name) != manifest.hosts.end();
    return members;
}

/// Runs make_files() in `partial`, which the ranks `owners` write together, and finishes the check of the files that it
/// reads. Collective.
MadeFiles make_and_check(const ManagedRun& run, const HostRun& host_run, const mpi::Comm& owners,
                         PartialDirectory& partial, const ReadRecord& record, const ExecOptions& exec) {
    MadeFiles made;
    try {
        if (run.check != nullptr) mpi::all_or_none(run.comm, [&] { run.check->start(); });
        made = make_files(host_run, partial.path(), record, exec);
    } catch (const mpi::AgreedError& error) {
        if (can_be_damage(error)) {
            try {
                finish_check_or_discard(run, owners, partial);
            } catch (const mpi::AgreedError&) {  // the first error is more useful
            }
        }
        throw;
    }
    finish_check_or_discard(run, owners, partial);
    return made;
}

/// Writes the manifest beside the files, and gives the folder its final name in staging. On return, all are on disk.
void complete_staging(const HostRun& run, const std::vector<bool>& members, const formats::Manifest& manifest,
                      PartialDirectory& partial) {
    run_together(run.all, [&] {
        if (run.host.rank() == 0) write_manifest(partial.path(), manifest);
    });
    std::string fault;
    run_together(run.all, [&] {
        if (members[run.team.host]) fault = partial.commit().fault;
    });
    run_together(run.all, [&] {
        if (!fault.empty()) throw failure("{}", fault);
    });
}

/// Adds the ranks to the hosts of `manifest`, and their devices unless these are 0, 1, 2 and so on. `numbers` contains
/// the position of each host in `manifest`.
void add_ranks(formats::Manifest& manifest, const Migration& migration, const std::vector<std::uint32_t>& numbers) {
    const RankPlaces places = rank_places(migration);
    for (std::size_t rank = 0; rank < places.host_of_rank.size(); ++rank) {
        formats::ManifestHost& host = manifest.hosts[numbers[places.host_of_rank[rank]]];
        host.ranks.push_back(static_cast<int>(rank));
        host.devices.push_back(places.device_of_rank[rank]);
    }
    for (formats::ManifestHost& host : manifest.hosts) {
        bool is_usual = true;
        for (std::size_t k = 0; k < host.devices.size(); ++k)
            is_usual = is_usual && host.devices[k] == static_cast<int>(k);
        if (is_usual) host.devices.clear();
    }
}

/// Writes and checks the files of the new state in staging; adds their checksums to `manifest`. Collective.
MigrateResult stage(const ManagedRun& run, const ManagedJob& job, const std::vector<bool>& members,
                    const ReadRecord& record, std::uint64_t request, formats::Manifest& manifest, Patience& patience) {
    ExecOptions exec = limits_of(run.comm, run.options, job.migration);
    std::optional<HostPart> part;
    std::optional<PartialDirectory> partial;
    const fs::path output = run.store.staging(manifest.change);
    mpi::all_or_none(run.comm, [&] {
        prune_before(run, job);
        // An earlier run may have completed this folder without completing those of the other hosts.
        if (run.host.rank() == 0) run.store.remove_staging(manifest.change);
        part.emplace(part_of_host(job.migration, run.team.host, {}));
        if (run.host.rank() == 0 && members[run.team.host])
            check_room_in_store(run.store, *part, manifest, run.options.prune);
    });
    run_together(run.comm, [&] { partial.emplace(run.host, naming_of(run, output, request, part->draft)); });
    patience.set_end("; the stores are as they were; run the same command to continue");
    exec.cancelled = run.signal();
    exec.journal = JournalPlace{partial->path(), request, partial->attempt()};
    const HostRun host_run{run.comm, run.host, run.team, job.migration, *part};
    FileCrcs crcs{part->draft};
    exec.file_crcs = &crcs;
    return keep_on_failure(*partial, [&] {
        const MadeFiles made = make_and_check(run, host_run, run.host, *partial, record, exec);
        run_together(run.comm, [&] { DraftFiles{run.host, part->draft, partial->path()}.rename_to_final(); });
        // `crcs` lacks the bytes that earlier runs wrote.
        add_checksums(host_run, partial->path(), made.report.bytes_kept == 0 ? &crcs : nullptr, exec.threads, manifest);
        complete_staging(host_run, members, manifest, *partial);
        return sum_results(host_run, made);
    });
}

}  // namespace

formats::Manifest planned_manifest(const ManagedRun& run, const ManagedJob& job, const std::string& request) {
    const Migration& migration = job.migration;
    const Draft& draft = migration.conversion.draft;
    formats::Manifest manifest{.job = job.job,
                               .iteration = job.iteration,
                               .epoch = run.survey.next_epoch(),
                               .request = request,
                               .model = job.model,
                               .layout = to_string(migration.target.layout),
                               .format = std::string{formats::name(migration.target.format)},
                               .replicas = static_cast<int>(run.options.replicas.value_or(1))};
    std::vector<std::uint32_t> numbers(run.team.hosts.size());
    for (std::size_t h = 0; h < run.team.hosts.size(); ++h) {
        if (!has_live_devices(run.team.hosts[h])) continue;
        numbers[h] = static_cast<std::uint32_t>(manifest.hosts.size());
        manifest.hosts.push_back({run.team.hosts[h].name, {}, {}});
    }
    add_ranks(manifest, migration, numbers);
    for (const Tensor& tensor : draft.tensors) manifest.tensors.push_back(tensor.name);
    const auto tensors = tensors_of_files(draft);
    for (std::size_t f = 0; f < draft.files.size(); ++f) {
        manifest.files.push_back({draft.files[f].path, draft.files[f].size, 0, {}, tensors[f]});
        for (std::size_t h = 0; h < run.team.hosts.size(); ++h)
            if (migration.files_of_hosts[h][f]) manifest.files.back().hosts.push_back(numbers[h]);
    }
    Fingerprint change;
    change.add(request);
    change.add(manifest.epoch);
    manifest.change = fmt::format("{:016x}", change.value());
    return manifest;
}

ManagedResult write_to_stores(const ManagedRun& run, const ManagedJob& job, const formats::Manifest& planned,
                              const ReadRecord& record, Patience& patience, Output& out) {
    const std::vector<bool> members = members_of(run.team, planned);
    const std::uint64_t request =
        agreed_request_digest(run.comm, job.migration, planned.request, record, run.host.rank() == 0);
    ManagedResult result{.done = {}, .manifest = planned};
    result.manifest.plan = fmt::format("{:016x}", request);
    mpi::all_or_none(run.comm,
                     [&] { limit_modes(record, job.migration.origin.own, run.store.staging(planned.change)); });
    const bool is_written = !run.options.restart && take_over_staging(run, members, result.manifest, result.done);
    remove_old_staging(run, result.manifest, out);
    if (is_written)
        out.note("an earlier run has written all files of the new state: only the switch remained");
    else
        result.done = stage(run, job, members, record, request, result.manifest, patience);
    if (run.check != nullptr) run.check->skip();
    patience.set_end("; run the same command to complete the switch", exit_after_commit);
    try {
        switch_stores(run.comm, run.team, run.store,
                      {{planned.change, planned.epoch, state_name(planned),
                        formats::SwitchRecord::SwitchPhase::prepared, run.options.decision_dir},
                       members});
    } catch (const mpi::AgreedError& error) {
        if (error.exit() == exit_after_commit) throw;
        throw mpi::AgreedError{Error{error.exit(),
                                     "{}; the new state is kept; run the same command to continue, or add "
                                     "--restart to start over",
                                     error.what()}};
    }
    return result;
}

MigrateResult write_to_shared(const ManagedRun& run, const ManagedJob& job, std::uint64_t request,
                              const ReadRecord& record, Patience& patience) {
    const fs::path output = run.options.export_to;
    ExecOptions exec = limits_of(run.comm, run.options, job.migration);
    std::optional<HostPart> part;
    mpi::all_or_none(run.comm, [&] {
        limit_modes(record, job.migration.origin.own, output);
        part.emplace(part_of_host(job.migration, run.team.host, {}));
    });
    check_room_for_export(run, *part, output);
    exec.rate_limiter = run.rate_limiter;
    PartialDirectory partial{run.comm, naming_of(run, output, request, job.migration.conversion.draft)};
    patience.set_end(fmt::format("; {} is unfinished", partial.path().string()));
    exec.cancelled = run.signal();
    exec.journal = journal_of_host(run, partial, request);
    const HostRun host_run{run.comm, run.host, run.team, job.migration, *part};
    return keep_on_failure(partial, [&] {
        const MadeFiles made = make_and_check(run, host_run, run.comm, partial, record, exec);
        run_together(run.comm, [&] { DraftFiles{run.host, part->draft, partial.path()}.rename_to_final(); });
        patience.set_end(fmt::format("; if {} exists, it is complete", output.string()), exit_after_commit);
        const PublishResult published = job.migration.target.format->is_one_file
                                            ? partial.commit_file(std::string{job.migration.target.format->file_name})
                                            : partial.commit();
        if (!published.fault.empty()) throw mpi::AgreedError{Error{exit_after_commit, "{}", published.fault}};
        return sum_results(host_run, made);
    });
}

}  // namespace tpx::cli
