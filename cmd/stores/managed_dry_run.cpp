// SPDX-License-Identifier: Apache-2.0
#include "cmd/stores/managed_dry_run.hpp"

#include "cmd/hosts/migrate_forecast.hpp"
#include "lib/exec/agreement.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace tpx::cli {
namespace {

/// By host: the bytes of its files of the current state.
std::vector<std::uint64_t> bytes_of_current(const ManagedRun& run) {
    std::vector<std::uint64_t> bytes(run.team.hosts.size());
    if (!run.survey.manifest) return bytes;
    const formats::Manifest& current = *run.survey.manifest;
    for (std::size_t h = 0; h < bytes.size(); ++h) {
        const auto number = std::ranges::find(current.hosts, run.team.hosts[h].name, &formats::ManifestHost::name);
        if (!run.survey.has_current[h] || number == current.hosts.end()) continue;
        for (const formats::ManifestFile& file : current.files)
            if (std::ranges::binary_search(file.hosts, static_cast<std::uint32_t>(number - current.hosts.begin())))
                bytes[h] += file.size;
    }
    return bytes;
}

}  // namespace

void report_dry_run(const ManagedRun& run, ManagedJob& job, const MigratePaths& places,
                    const formats::Manifest* manifest, Output& out) {
    mpi::all_or_none(run.comm, [&] {
        if (run.comm.rank() != 0) return;
        const auto checked = job.is_import ? std::vector<std::uint64_t>{} : bytes_of_current(run);
        std::optional<double> disk_limit;
        if (run.rate_limiter != nullptr) disk_limit = run.rate_limiter->rate() * run.host.size();
        job.migration.forecast = forecast_of(job.migration, run.options, checked, manifest, disk_limit);
        report(job.migration, places, nullptr, out, manifest);
    });
}

}  // namespace tpx::cli
