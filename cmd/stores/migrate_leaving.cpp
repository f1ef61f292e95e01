// SPDX-License-Identifier: Apache-2.0
#include "cmd/stores/migrate_leaving.hpp"

#include "cmd/hosts/migrate_report.hpp"
#include "cmd/output/job_log.hpp"
#include "cmd/stores/managed_request.hpp"
#include "cmd/stores/managed_target.hpp"
#include "formats/files/plan/host_names.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/fingerprint.hpp"
#include "lib/core/units.hpp"

#include <algorithm>
#include <set>

namespace tpx::cli {
namespace {

std::vector<bool> leaving_hosts(const ManagedRun& run) {
    std::vector<bool> leaving(run.team.hosts.size());
    for (const std::string& name : formats::expand_host_names(run.options.leaving))
        for (std::size_t h = 0; h < leaving.size(); ++h) leaving[h] = leaving[h] || run.team.hosts[h].name == name;
    return leaving;
}

bool is_only_on(const StoredFile& file, const std::vector<bool>& hosts) {
    return std::ranges::all_of(file.hosts, [&](int host) { return hosts[static_cast<std::size_t>(host)]; });
}

/// The options for saving the state of leaving hosts: the current layout and format, without replicas.
MigrateRequest options_to_save(const MigrateRequest& options, const formats::Manifest& current) {
    MigrateRequest save = options;
    save.plan.to = current.layout;
    for (std::string* text : {&save.plan.format, &save.plan.dialect, &save.data}) text->clear();
    save.plan.batch.reset();
    save.replicas.reset();
    save.position.reset();
    save.assigned.reset();
    return save;
}

/// The files of the current state, which has just been written, with the hosts that the manifest names.
StoreCheck check_by_manifest(const ManagedRun& run) {
    const formats::Manifest& manifest = *run.survey.manifest;
    StoreCheck check;
    for (const formats::ManifestFile& file : manifest.files) {
        StoredFile stored{file.path, file.size, {}};
        for (std::uint32_t k : file.hosts) {
            const auto host = std::ranges::find(run.team.hosts, manifest.hosts[k].name, &Host::name);
            stored.hosts.push_back(static_cast<int>(host - run.team.hosts.begin()));
        }
        std::ranges::sort(stored.hosts);
        check.files.push_back(std::move(stored));
    }
    return check;
}

/// Removes leaving hosts as sources of files that other hosts have, too.
void spare_leaving_hosts(StoreCheck& check, const std::vector<bool>& leaving) {
    for (StoredFile& file : check.files)
        if (!is_only_on(file, leaving))
            std::erase_if(file.hosts, [&](int host) { return leaving[static_cast<std::size_t>(host)]; });
}

/// Marks files that only leaving hosts have as lost, so that the state is read from --fallback.
void give_up(StoreCheck& check, const formats::Manifest& manifest, const std::vector<bool>& leaving) {
    std::set<std::uint32_t> named;
    for (const formats::ManifestFile& file : manifest.files) {
        const auto stored = std::ranges::find(check.files, file.path, &StoredFile::path);
        if (stored == check.files.end() || !is_only_on(*stored, leaving)) continue;
        check.files.erase(stored);
        for (std::uint32_t tensor : file.tensors)
            if (named.insert(tensor).second)
                check.lost_tensors.emplace_back(manifest.tensors[tensor], file.path.string());
        if (file.tensors.empty()) check.lost_tensors.emplace_back("", file.path.string());
    }
}

[[noreturn]] void refuse_late(const ManagedRun& run, const LeavingPlan& plan, Output& out) {
    if (out.json()) {
        out.object("tpx.migrate/1",
                   {{"stores", run.options.store}, {"written", false}, {"leaving", leaving_json(plan)}});
        set_json_errors(false);  // standard output must contain only one document
    }
    throw mpi::AgreedError{Error{
        Exit::no,
        "{}: {}; pass --fallback CKPT with a checkpoint of iteration {} on shared storage, or omit --within to change "
        "the state regardless of the time left",
        run.options.store, describe_leaving(plan), run.survey.manifest->iteration}};
}

MigrateResult save(ManagedRun& run, const MigrateRequest& options, const ManagedJob& job, const ReadRecord& record,
                   Patience& patience, Output& out) {
    Fingerprint request;
    request.add("save what only leaving hosts have");
    request.add(options.leaving);
    request.add(run.survey.manifest->request);
    const ManagedRun saving{run.comm, run.host, options, run.team, run.store, run.survey, nullptr, run.stop};
    formats::Manifest manifest = planned_manifest(saving, job, fmt::format("{:016x}", request.value()));
    manifest.requested_replicas = static_cast<int>(run.options.replicas.value_or(1));  // in case this run ends here
    const ManagedResult done = write_to_stores(saving, job, manifest, record, patience, out);
    run.survey = survey_stores(run.comm, run.team, run.store, rejoining_hosts(run.options, run.team));
    out.note("saved: {} has all files on hosts that remain", state_name(done.manifest));
    return done.done;
}

/// The files that `job` would write, with the hosts that would have them.
std::vector<StoredFile> files_to_be(const Migration& job) {
    std::vector<StoredFile> files;
    for (std::size_t f = 0; f < job.conversion.draft.files.size(); ++f) {
        files.push_back({job.conversion.draft.files[f].path, job.conversion.draft.files[f].size, {}});
        for (std::size_t h = 0; h < job.files_of_hosts.size(); ++h)
            if (job.files_of_hosts[h][f]) files.back().hosts.push_back(static_cast<int>(h));
    }
    return files;
}

/// The seconds since `start` on rank 0, the same on all ranks.
double agreed_seconds(const mpi::Comm& comm, std::chrono::steady_clock::time_point start) {
    const double own = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::string text = std::to_string(own);
    mpi::broadcast(comm, text);
    return std::stod(text);
}

}  // namespace

std::optional<SavedFromLeaving> save_from_leaving_hosts(ManagedRun& run, StoreCheck& check, Patience& patience,
                                                        Output& out, std::chrono::steady_clock::time_point start) {
    const Duration within = run.options.within;
    if (!within || !check.lost_tensors.empty()) return std::nullopt;
    const std::vector<bool> leaving = leaving_hosts(run);
    SavedFromLeaving saved{.plan = {.within = *within}, .done = {}, .files = {}};
    LeavingPlan& plan = saved.plan;
    for (const StoredFile& file : check.files) {
        if (!is_only_on(file, leaving)) continue;
        ++plan.files;
        plan.bytes += file.size;
    }
    spare_leaving_hosts(check, leaving);
    ReadRecord record;
    std::optional<ManagedJob> job;
    const MigrateRequest options = options_to_save(run.options, *run.survey.manifest);
    if (plan.files > 0) {
        const ManagedRun saving{run.comm, run.host, options, run.team, run.store, run.survey};
        job = plan_from_stores(saving, check, MigrateTarget::saving, record, out);
        add_times(plan, job->migration.change, leaving);
    }
    plan.passed = agreed_seconds(run.comm, start);
    log_event("leaving", {{"plan", leaving_json(plan)}});
    if (!plan.is_in_time() && !run.options.fallback.empty()) {
        out.note("{}", describe_leaving(plan));
        give_up(check, *run.survey.manifest, leaving);
        return saved;
    }
    if (!plan.is_in_time() && plan.assumed.empty()) refuse_late(run, plan, out);
    out.note("{}", describe_leaving(plan));
    if (!job) return saved;
    add_transfers(plan, job->migration.change);
    if (run.options.dry_run) {
        saved.files = files_to_be(job->migration);
    } else {
        saved.done = save(run, options, *job, record, patience, out);
        check = check_by_manifest(run);
    }
    return saved;
}

}  // namespace tpx::cli
