// SPDX-License-Identifier: Apache-2.0
#include "cmd/stores/managed_source.hpp"

#include "cmd/hosts/migrate_ranks.hpp"
#include "cmd/jobs/check_copies.hpp"
#include "cmd/jobs/keeper_client.hpp"
#include "cmd/plan/plan_hosts.hpp"
#include "formats/convert/canonical.hpp"
#include "formats/files/merged_stores.hpp"
#include "formats/files/plan/host_names.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/fingerprint.hpp"
#include "lib/core/in_path.hpp"
#include "lib/exec/agreement.hpp"

#include <optional>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;

/// A digest of all tensor names and unpadded shapes, the same for every layout.
std::string model_of(const Migration& job) {
    std::vector<std::string> tensors;
    formats::for_each_canonical(job.opened.source, [&](const Part& part, std::size_t) {
        tensors.push_back(fmt::format("{} {}", part.name, to_string(part.shape)));
    });
    std::ranges::sort(tensors);  // their order in a catalogue depends on the layout of the checkpoint
    Fingerprint print;
    for (const std::string& tensor : tensors) print.add(tensor);
    return fmt::format("{:016x}", print.value());
}

/// The iteration that the checkpoint records or, if it records none, that of --iteration.
std::int64_t iteration_of(const ManagedRun& run, const std::string& path, const Migration& job) {
    const Integer given = run.options.iteration;
    const std::optional<std::int64_t>& recorded = job.opened.source.checkpoint.iteration;
    if (recorded && given && *recorded != *given)
        throw failure("{}: has iteration {}, not {} (--iteration)", path, *recorded, *given);
    if (!recorded && !given) throw Error{Exit::usage, "{}: does not record its iteration; pass --iteration N", path};
    return recorded ? *recorded : *given;
}

/// The name of the job whose checkpoint is at `path`: from --job, from the stores, or derived from the model, in this
/// order.
std::string job_of(const ManagedRun& run, const std::string& path, const std::string& model) {
    const std::string& given = run.options.job;
    const auto& current = run.survey.manifest;
    if (current && !given.empty() && given != current->job)
        throw failure("{}: contains job '{}', not '{}'; use another --store, or remove the stores", run.options.store,
                      current->job, given);
    if (current && current->model != model && path == run.options.fallback)
        throw failure("{}: its tensors have other names or shapes than those of job '{}' in {}; use another --fallback",
                      path, current->job, run.options.store);
    if (current && given.empty() && current->model != model)
        throw failure(
            "{}: contains job '{}', whose tensors have other names or shapes; use another --store, or pass "
            "--job {} if this is the same job",
            run.options.store, current->job, current->job);
    if (current) return current->job;
    return given.empty() ? "model-" + model.substr(0, 8) : given;
}

Migration plan_shared(const ManagedRun& run, const std::string& path, MigrateTarget purpose, ReadRecord& record) {
    Migration job;
    mpi::all_or_none(run.comm, [&] {
        const fs::path real = path_without_links(path);
        job = in_path(path, [&] {
            return plan_migration(run.options, run.team.hosts, {.named = path, .folder = real, .own = real}, purpose);
        });
    });
    record.seal();
    if (!job.conversion.dropped_copies.empty())
        in_path(path, [&] { check_copies(run.comm, job.conversion, job.opened.source.checkpoint.catalogue, {}); });
    return job;
}

Migration plan_mirrored(const ManagedRun& run, MigrationSource origin, const std::vector<fs::path>* only,
                        MigrateTarget purpose, ReadRecord& record, const std::vector<StoredFile>& to_be) {
    Mirror mirror{run.comm, origin.own, static_cast<int>(run.team.host), only, formats::answer_file_question};
    record.seal();
    origin.folder = mirror.folder();
    origin.files = mirror.files();
    for (const StoredFile& file : to_be)
        for (StoredFile& stored : origin.files)
            if (stored.path == file.path) stored.hosts = file.hosts;
    const bool rehearses = only != nullptr && plans_on_first(run.options);
    Migration job =
        plan_from_mirror(run.options, run.team, mirror, origin, purpose, rehearses ? Planners::first : Planners::all);
    if (only != nullptr || job.origin.held) return job;  // the metadata of held state identify the save
    const ContentCheck check = check_stores(run.comm, job, mirror, run.team);
    mpi::all_or_none(run.comm, [&] { check(nullptr); });
    return job;
}

/// "the state is also on n[3-4], which --hosts lacks", or nothing.
std::string hosts_of_state_not_given(const ManagedRun& run) {
    std::vector<std::string> names;
    for (const formats::ManifestHost& host : run.survey.manifest->hosts)
        if (std::ranges::find(run.team.hosts, host.name, &Host::name) == run.team.hosts.end())
            names.push_back(host.name);
    if (names.empty()) return {};
    return fmt::format("the state is also on {}, which --hosts lacks", formats::fold_host_names(names));
}

/// "36 tensors", "1 file" or "36 tensors and 5 other files", where files are those without tensor data.
std::string count_lost(const StoreCheck& check) {
    const auto files = static_cast<std::size_t>(
        std::ranges::count_if(check.lost_tensors, [](const auto& lost) { return lost.first.empty(); }));
    const std::size_t tensors = check.lost_tensors.size() - files;
    if (files == 0) return counted(tensors, "tensor");
    if (tensors == 0) return counted(files, "file");
    return fmt::format("{} and {}", counted(tensors, "tensor"), counted(files, "other file"));
}

Error nothing_intact(const ManagedRun& run, const StoreCheck& check) {
    std::string names;
    constexpr std::size_t most = 5;
    auto lost = check.lost_tensors;
    std::ranges::stable_partition(lost, [](const auto& each) { return !each.first.empty(); });
    for (std::size_t k = 0; k < std::min(most, lost.size()); ++k) {
        const auto& [tensor, file] = lost[k];
        names +=
            fmt::format("{}{}", k == 0 ? "" : ", ", tensor.empty() ? file : fmt::format("'{}' ({})", tensor, file));
    }
    if (check.lost_tensors.size() > most) names += fmt::format(" and {} more", check.lost_tensors.size() - most);
    if (const std::string absent = hosts_of_state_not_given(run); !absent.empty()) names += "; " + absent;
    return Error{Exit::no,
                 "{}: no host has an intact copy of {}: {}; pass --fallback CKPT with a checkpoint of iteration {} "
                 "on shared storage, or --import one",
                 run.options.store,
                 count_lost(check),
                 names,
                 run.survey.manifest->iteration};
}

}  // namespace

bool plans_on_first(const MigrateRequest& options) { return options.dry_run && !options.within; }

ManagedJob plan_import(const ManagedRun& run, const std::string& path, MigrateTarget purpose, ReadRecord& record) {
    ManagedJob job{.is_import = true};
    if (path.find("{host}") == path.npos && !path.starts_with(held_prefix)) {
        job.migration = plan_shared(run, path, purpose, record);
    } else {
        PlainStore own;
        mpi::all_or_none(run.comm, [&] { own = plain_store(path, run.team.hosts[run.team.host]); });
        job.migration =
            plan_mirrored(run, {.named = path, .own = own.folder, .held = own.held}, nullptr, purpose, record, {});
    }
    mpi::all_or_none(run.comm, [&] {
        job.model = model_of(job.migration);
        job.iteration = iteration_of(run, path, job.migration);
        job.job = job_of(run, path, job.model);
        if (run.survey.manifest) job.model = run.survey.manifest->model;
    });
    return job;
}

void require_intact(const ManagedRun& run, const StoreCheck& check) {
    if (!check.lost_tensors.empty()) throw mpi::AgreedError{nothing_intact(run, check)};
}

void require_on_hosts(const ManagedRun& run, const StoreCheck& check) {
    std::string faults = check.notes.empty() ? "" : check.notes[0];
    for (std::size_t h = 0; h < run.team.hosts.size() && faults.empty(); ++h) {
        const Host& host = run.team.hosts[h];
        const auto member = std::ranges::find(run.survey.manifest->hosts, host.name, &formats::ManifestHost::name);
        if (host.lost || run.survey.has_current[h] || member == run.survey.manifest->hosts.end()) continue;
        if (!member->ranks.empty()) faults = fmt::format("host '{}' does not have the current state", host.name);
    }
    if (!faults.empty())
        throw mpi::AgreedError{Error{Exit::no, "{}: {}; run tpx migrate --to {} to restore it from other hosts",
                                     run.options.store, faults, run.survey.manifest->layout}};
    if (const std::string absent = hosts_of_state_not_given(run); !absent.empty())
        throw mpi::AgreedError{Error{Exit::no,
                                     "{}: {}; complete --hosts, or run tpx migrate --to {} to place it on these",
                                     run.options.store, absent, run.survey.manifest->layout}};
    if (!rank_places(*run.survey.manifest, run.team.hosts, 0))
        throw mpi::AgreedError{Error{
            Exit::no, "{}: ranks of the state have no device on these hosts; run tpx migrate --to {} to place them",
            run.options.store, run.survey.manifest->layout}};
}

ManagedJob plan_from_stores(const ManagedRun& run, const StoreCheck& check, MigrateTarget purpose, ReadRecord& record,
                            Output& out, const std::vector<StoredFile>& to_be) {
    const formats::Manifest& current = *run.survey.manifest;
    if (!check.lost_tensors.empty()) {
        const Error lost = nothing_intact(run, check);
        if (run.options.fallback.empty()) throw mpi::AgreedError{lost};
        ManagedJob job = plan_import(run, run.options.fallback, purpose, record);
        if (job.iteration != current.iteration)
            throw mpi::AgreedError{Error{Exit::no,
                                         "{}; {} has iteration {}, but the stores have {}; to return to iteration {}, "
                                         "pass it to --import",
                                         lost.what(), run.options.fallback, job.iteration, current.iteration,
                                         job.iteration}};
        out.note("no usable copy of {} in the stores: all state is read from {}", count_lost(check),
                 run.options.fallback);
        return job;
    }
    std::vector<fs::path> own;
    for (const StoredFile& file : check.files)
        if (std::ranges::binary_search(file.hosts, static_cast<int>(run.team.host))) own.push_back(file.path);
    const MigrationSource origin{.named = fmt::format("{}/current", run.options.store),
                                 .own = run.store.state(state_name(current))};
    return {.migration = plan_mirrored(run, origin, &own, purpose, record, to_be),
            .job = current.job,
            .iteration = current.iteration,
            .model = current.model};
}

}  // namespace tpx::cli
