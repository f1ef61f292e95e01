// SPDX-License-Identifier: Apache-2.0
#include "cmd/stores/staged_state.hpp"

#include "formats/files/plan/host_names.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"
#include "lib/core/write_file.hpp"
#include "lib/exec/agreement.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <set>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;

bool is_of_change(const std::string& staging) { return !staging.starts_with(replaced_current_prefix); }

/// A complete state in the staging folder of this host.
struct StagedState {
    std::string name;
    formats::Manifest manifest;
};

/// The complete state that was written by the plan `plan`; nothing if there is none.
std::optional<StagedState> staged_state(const NodeStore& store, const std::string& plan) {
    for (const std::string& name : store.stagings()) {
        if (!is_of_change(name) || name.find(".partial-") != name.npos) continue;
        const fs::path file = store.staging(name) / formats::manifest_name;
        try {
            formats::Manifest manifest = formats::parse_manifest(read_file(file), file);
            if (manifest.plan == plan) return StagedState{name, std::move(manifest)};
        } catch (const Error&) {  // not a complete state
        }
    }
    return std::nullopt;
}

/// Whether the folder of the state contains exactly the files of host `name`, with their checksums. Throws Error soon
/// after `signal` asks to stop.
bool is_intact(const NodeStore& store, const StagedState& state, const std::string& name,
               const std::atomic<int>* signal) {
    const formats::Manifest& manifest = state.manifest;
    const auto host = std::ranges::find(manifest.hosts, name, &formats::ManifestHost::name);
    const auto number = static_cast<std::uint32_t>(host - manifest.hosts.begin());
    std::set<fs::path> unlisted;
    for (const fs::path& path : list_files_below(store.staging(state.name))) unlisted.insert(path);
    unlisted.erase(formats::manifest_name);
    for (const formats::ManifestFile& file : manifest.files) {
        if (!std::ranges::binary_search(file.hosts, number)) continue;
        if (unlisted.erase(file.path) == 0) return false;
        const auto check = [&](std::uint64_t) { check_not_stopped(signal, "; the stores are as they were"); };
        if (formats::crc_of_file(store.staging(state.name) / file.path, file.size, check) != file.crc) return false;
    }
    return unlisted.empty();
}

/// Copies the checksums of `from`, a manifest of the same plan, to `to`.
void copy_checksums(const formats::Manifest& from, formats::Manifest& to) {
    for (std::size_t f = 0; f < to.files.size(); ++f) to.files[f].crc = from.files[f].crc;
}

bool have_same_files(const formats::Manifest& a, const formats::Manifest& b) {
    return std::ranges::equal(a.files, b.files, [](const formats::ManifestFile& x, const formats::ManifestFile& y) {
        return x.path == y.path && x.size == y.size && x.hosts == y.hosts;
    });
}

/// What the host of this rank has in staging: the text of the manifest, followed by "damaged" if its files are damaged;
/// "" if there is none; "-" if none is needed, or if this rank does not act for the host. Sets `mine`.
std::string find_staged(const ManagedRun& run, bool is_member, const formats::Manifest& manifest,
                        std::optional<StagedState>& mine) {
    if (!is_member || !run.team.is_first(run.comm.rank())) return "-";
    mine = staged_state(run.store, manifest.plan);
    const std::string& host = run.team.hosts[run.team.host].name;
    if (!mine || !have_same_files(mine->manifest, manifest)) return "";
    return formats::to_text(mine->manifest) + (is_intact(run.store, *mine, host, run.signal()) ? "" : "damaged");
}

}  // namespace

void write_manifest(const fs::path& folder, const formats::Manifest& manifest) {
    for (const std::string& name : list_directory(folder))
        if (name.starts_with(formats::manifest_name) && ::unlink((folder / name).c_str()) != 0)
            throw system_failure(folder / name, errno);
    write_file(folder / formats::manifest_name, formats::to_text(manifest));
}

bool take_over_staging(const ManagedRun& run, const std::vector<bool>& members, formats::Manifest& manifest,
                       MigrateResult& done) {
    std::optional<StagedState> mine;
    std::string text;
    mpi::all_or_none(run.comm, [&] { text = find_staged(run, members[run.team.host], manifest, mine); });
    std::vector<std::string> all = mpi::all_gather(run.comm, text);
    std::erase(all, "-");
    if (all.empty() || std::ranges::any_of(all, [&](const std::string& each) { return each != all.front(); }))
        return false;
    std::optional<formats::Manifest> staged;
    try {
        staged = formats::parse_manifest(all.front(), formats::manifest_name);
    } catch (const Error&) {  // no host has the state, or all of them are damaged
        return false;
    }
    copy_checksums(*staged, manifest);
    mpi::all_or_none(run.comm, [&] {
        if (!mine) return;
        run.store.rename_staging(mine->name, manifest.change);
        write_manifest(run.store.staging(manifest.change), manifest);
    });
    done = {};
    done.sent.resize(run.team.hosts.size());
    done.received.resize(run.team.hosts.size());
    for (const formats::ManifestFile& file : manifest.files) done.report.bytes_kept += file.size * file.hosts.size();
    return true;
}

void remove_old_staging(const ManagedRun& run, const formats::Manifest& manifest, Output& out) {
    std::array<std::uint64_t, 2> removed{};  // of this change, and of others
    mpi::all_or_none(run.comm, [&] {
        if (run.host.rank() != 0) return;
        for (const std::string& name : run.store.stagings()) {
            const bool is_of_this = name.starts_with(manifest.change);
            const bool is_kept = name == manifest.change || name == manifest.change + ".partial-" + manifest.plan;
            if (!is_of_change(name) || (is_of_this && (is_kept || run.options.restart))) continue;
            run.store.remove_staging(name);
            removed[is_of_this ? 0 : 1] = 1;
        }
    });
    mpi::all_sum(run.comm, removed);
    if (removed[0] > 0)
        out.note(
            "removed files that an unfinished run of this change had left in staging, because that run read other "
            "files");
    if (removed[1] > 0) out.note("removed files that an unfinished change to another state had left in staging");
}

std::string hosts_with_staging(const ManagedRun& run) {
    std::vector<std::string> names;
    for (std::size_t h = 0; h < run.team.hosts.size(); ++h)
        if (std::ranges::any_of(run.survey.hosts[h].stagings, is_of_change)) names.push_back(run.team.hosts[h].name);
    return formats::fold_host_names(names);
}

}  // namespace tpx::cli
