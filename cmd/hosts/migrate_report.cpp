// SPDX-License-Identifier: Apache-2.0
#include "cmd/hosts/migrate_report.hpp"

#include "cmd/hosts/migrate_forecast.hpp"
#include "cmd/hosts/state_json.hpp"
#include "cmd/jobs/direct_io_notes.hpp"
#include "cmd/output/job_log.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/units.hpp"
#include "lib/exec/publish.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

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

/// `done` is null for a plan. With --within, the bytes include those that save the state of leaving hosts first.
std::vector<HostShare> shares_of(const Migration& job, const MigrateResult* done) {
    std::vector<HostShare> shares(job.change.hosts.size());
    const std::vector<std::uint32_t> hosts = hosts_of_ranks(job);
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) shares[hosts[rank]].ranks.push_back(static_cast<int>(rank));
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
    const bool saves = job.leaving && !job.leaving->sends.empty();
    for (std::size_t h = 0; h < shares.size(); ++h) {
        shares[h].sends = done != nullptr ? done->sent[h] : shares[h].sends + (saves ? job.leaving->sends[h] : 0);
        shares[h].receives =
            done != nullptr ? done->received[h] : shares[h].receives + (saves ? job.leaving->receives[h] : 0);
    }
    return shares;
}

std::uint64_t bytes_between_hosts(const std::vector<HostShare>& shares) {
    std::uint64_t sum = 0;
    for (const HostShare& share : shares) sum += share.sends;
    return sum;
}

Json copies_json(const DataCopies& copies) {
    return {{"files", copies.files},
            {"bytes", copies.bytes},
            {"bytes_missing", copies.missing},
            {"bytes_between_hosts", copies.crossing}};
}

Json migrate_json(const Migration& job, const MigratePaths& places, const MigrateResult* done,
                  const formats::Manifest* manifest) {
    const std::vector<HostShare> shares = shares_of(job, done);
    Json json{{"stores", places.from},
              {"output", places.to},
              {"format", formats::name(job.target.format)},
              {"layout", to_json(job.target.layout)},
              {"written", done != nullptr},
              {"notes", job.conversion.notes},
              {"bytes_between_hosts", bytes_between_hosts(shares)},
              {"hosts", Json::array()}};
    for (std::size_t h = 0; h < shares.size(); ++h)
        json["hosts"].push_back({{"name", job.change.hosts[h].name},
                                 {"ranks", shares[h].ranks},
                                 {"files", shares[h].files},
                                 {"bytes", shares[h].bytes},
                                 {"sends", shares[h].sends},
                                 {"receives", shares[h].receives}});
    if (job.batch > 0) json["global_batch"] = job.batch;
    if (job.position) json["data"] = to_json(*job.position);
    if (job.choice)
        json["choice"] = {{"compared", job.choice->compared},
                          {"excluded", job.choice->excluded},
                          {"bytes_between_hosts", job.choice->crossing}};
    if (job.purpose != MigrateTarget::shared)
        json["ranks"] =
            ranks_json(rank_places(job), places.state.empty() ? places.to : places.state, places.data_store);
    if (job.data_copies) json["data_files"] = copies_json(*job.data_copies);
    if (manifest != nullptr) json["state"] = state_json(*manifest);
    if (job.forecast) json["forecast"] = to_json(*job.forecast);
    if (job.leaving) json["leaving"] = leaving_json(*job.leaving);
    if (places.background_rate > 0) json["background_rate"] = places.background_rate;
    if (done == nullptr) return json;
    for (const std::string& note : direct_io_notes(done->report, places.to)) json["notes"].push_back(note);
    json["bytes_read"] = done->report.bytes_read;
    json["bytes_written"] = done->report.bytes_written;
    json["bytes_shared"] = done->report.bytes_shared;
    json["bytes_kept"] = done->report.bytes_kept;
    json["messages"] = done->messages;
    json["seconds"] = done->seconds;
    return json;
}

Json current_json(const std::string& store, const formats::Manifest& manifest, const CurrentRanks& ranks) {
    Json json{{"stores", store},
              {"output", store},
              {"format", manifest.format},
              {"layout", to_json(parse_layout(manifest.layout))},
              {"written", false}};
    if (ranks.batch > 0) json["global_batch"] = ranks.batch;
    if (!ranks.position.is_null()) json["data"] = ranks.position;
    if (ranks.places) json["ranks"] = ranks_json(*ranks.places, store + "/current", ranks.data_store);
    if (ranks.data_copies) json["data_files"] = copies_json(*ranks.data_copies);
    json["state"] = state_json(manifest);
    return json;
}

void print_copies(const std::optional<DataCopies>& copies, Output& out) {
    if (!copies) return;
    out.result("data: {}, {}; copied to hosts {}, of which {} from other hosts\n", counted(copies->files, "file"),
               format_size(copies->bytes), format_size(copies->missing), format_size(copies->crossing));
}

std::string in_words(const formats::Manifest& manifest) {
    return fmt::format("job '{}', iteration {}, epoch {}", manifest.job, manifest.iteration, manifest.epoch);
}

}  // namespace

Json leaving_json(const LeavingPlan& plan) {
    return {{"within_seconds", plan.within},
            {"elapsed_seconds", plan.passed},
            {"files", plan.files},
            {"bytes", plan.bytes},
            {"bytes_between_hosts", std::accumulate(plan.sends.begin(), plan.sends.end(), std::uint64_t{0})},
            {"send_seconds", plan.send_seconds},
            {"save_seconds", plan.seconds},
            {"in_time", plan.is_in_time()},
            {"assumed_rates", plan.assumed}};
}

void report(const Migration& job, const MigratePaths& places, const MigrateResult* done, Output& out,
            const formats::Manifest* manifest) {
    for (const std::string& note : job.conversion.notes) out.note("{}", note);
    for (const std::string& note : direct_io_notes(done == nullptr ? ExecReport{} : done->report, places.to))
        out.note("{}", note);
    if (job.choice)
        out.note("--to auto: {} is the best of {}; tpx plan --to auto compares them", to_string(job.target.layout),
                 counted(job.choice->compared, "layout"));
    log_event("result", {{"migrate", migrate_json(job, places, done, manifest)}});
    if (out.json()) return out.object("tpx.migrate/1", migrate_json(job, places, done, manifest));
    if (manifest != nullptr) out.result("{}: {}\n", printable(places.to), in_words(*manifest));
    out.result("{}: {}, {} ({}), {}\n", printable(places.to), formats::name(job.target.format),
               to_string(job.target.layout), counted(job.target.layout.ranks(), "rank"),
               counted(job.conversion.draft.tensors.size(), "tensor"));
    out.result("{:<12} {:>6} {:>6} {:>10} {:>10} {:>10}\n", "host", "ranks", "files", "stores", "sends", "receives");
    const std::vector<HostShare> shares = shares_of(job, done);
    for (std::size_t h = 0; h < shares.size(); ++h)
        out.result("{:<12} {:>6} {:>6} {:>10} {:>10} {:>10}\n", job.change.hosts[h].name, shares[h].ranks.size(),
                   shares[h].files, format_size(shares[h].bytes), format_size(shares[h].sends),
                   format_size(shares[h].receives));
    print_copies(job.data_copies, out);
    if (job.forecast) print_forecast(*job.forecast, bytes_between_hosts(shares), out);
    if (done == nullptr) return out.result("nothing was written (--dry-run)\n");
    out.result("sent {} between hosts, read {} and wrote {} in {}\n", format_size(bytes_between_hosts(shares)),
               format_size(done->report.bytes_read), format_size(done->report.bytes_written),
               format_seconds(done->seconds));
}

std::string report_done(const mpi::Comm& comm, const Migration& job, const MigratePaths& places,
                        const MigrateResult& done, Output& out, const formats::Manifest* manifest) {
    std::string fault;
    try {
        report(job, places, &done, out, manifest);
        out.finish();
    } catch (const std::exception& error) {
        fault = error.what();
    }
    mpi::broadcast(comm, fault);
    return fault;
}

void require_reported(const std::string& fault, const std::string& output) {
    if (!fault.empty())
        throw mpi::AgreedError{Error{exit_after_commit, "{}; {} is complete and in place", fault, output}};
}

void report_current(const std::string& store, const formats::Manifest& manifest, const CurrentRanks& ranks,
                    Output& out) {
    const Json json = current_json(store, manifest, ranks);
    log_event("result", {{"migrate", json}});
    if (out.json()) return out.object("tpx.migrate/1", json);
    out.result("{}: {} is current: {}, {} ({}); nothing to do\n", printable(store), state_name(manifest),
               manifest.format, manifest.layout, in_words(manifest));
    print_copies(ranks.data_copies, out);
}

}  // namespace tpx::cli
