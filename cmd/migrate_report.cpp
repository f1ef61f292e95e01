// SPDX-License-Identifier: Apache-2.0
#include "cmd/migrate.hpp"
#include "cmd/output.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/units.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

/// What one host gets.
struct HostShare {
    std::vector<int> ranks;
    std::size_t files = 0;
    std::uint64_t bytes = 0;  ///< of its files
    std::uint64_t sends = 0;
    std::uint64_t receives = 0;
};

std::vector<HostShare> shares_of(const Migration& job) {
    std::vector<HostShare> shares(job.change.hosts.size());
    const std::vector<std::int32_t> firsts = first_devices(job.change.hosts);
    for (std::size_t rank = 0; rank < job.change.placement.devices.size(); ++rank) {
        const auto next = std::ranges::upper_bound(firsts, job.change.placement.devices[rank]);
        shares[static_cast<std::size_t>(next - firsts.begin()) - 1].ranks.push_back(static_cast<int>(rank));
    }
    for (std::size_t h = 0; h < shares.size(); ++h) {
        for (std::size_t f = 0; f < job.files_of_hosts[h].size(); ++f) {
            if (!job.files_of_hosts[h][f]) continue;
            ++shares[h].files;
            shares[h].bytes += job.conversion.draft.files[f].size;
        }
    }
    for (const Transfer& transfer : job.change.relocation.transfers) {
        shares[transfer.from].sends += transfer.end - transfer.begin;
        shares[transfer.to].receives += transfer.end - transfer.begin;
    }
    return shares;
}

Json migrate_json(const Migration& job, const MigrateOptions& options, const MigrateDone* done) {
    Json json{{"stores", options.plan.stores},
              {"output", options.output},
              {"format", formats::name(job.target.format)},
              {"layout", to_json(job.target.layout)},
              {"written", done != nullptr},
              {"notes", job.conversion.notes},
              {"bytes_between_hosts", job.change.relocation.total.other_host},
              {"hosts", Json::array()}};
    const std::vector<HostShare> shares = shares_of(job);
    for (std::size_t h = 0; h < shares.size(); ++h)
        json["hosts"].push_back({{"name", job.change.hosts[h].name},
                                 {"ranks", shares[h].ranks},
                                 {"files", shares[h].files},
                                 {"bytes", shares[h].bytes},
                                 {"sends", done == nullptr ? shares[h].sends : done->sent[h]},
                                 {"receives", done == nullptr ? shares[h].receives : done->received[h]}});
    if (done == nullptr) return json;
    json["bytes_read"] = done->report.bytes_read;
    json["bytes_written"] = done->report.bytes_written;
    json["bytes_kept"] = done->report.bytes_kept;
    json["seconds"] = done->seconds;
    return json;
}

}  // namespace

void report(const Migration& job, const MigrateOptions& options, const MigrateDone* done, Output& out) {
    for (const std::string& note : job.conversion.notes) out.note("{}", note);
    if (out.json()) return out.object("tpx.migrate/1", migrate_json(job, options, done));
    out.result("{}: {}, {} ({}), {}\n", options.output, formats::name(job.target.format), to_string(job.target.layout),
               counted(job.target.layout.ranks(), "rank"), counted(job.conversion.draft.tensors.size(), "tensor"));
    out.result("{:<12} {:>6} {:>6} {:>10} {:>10} {:>10}\n", "host", "ranks", "files", "stores", "sends", "receives");
    const std::vector<HostShare> shares = shares_of(job);
    for (std::size_t h = 0; h < shares.size(); ++h)
        out.result("{:<12} {:>6} {:>6} {:>10} {:>10} {:>10}\n", job.change.hosts[h].name, shares[h].ranks.size(),
                   shares[h].files, format_size(shares[h].bytes), format_size(shares[h].sends),
                   format_size(shares[h].receives));
    if (done == nullptr) return out.result("nothing was written (--dry-run)\n");
    out.result("sent {} between hosts, read {} and wrote {} in {}\n",
               format_size(job.change.relocation.total.other_host), format_size(done->report.bytes_read),
               format_size(done->report.bytes_written), format_seconds(done->seconds));
}

}  // namespace tpx::cli
