// SPDX-License-Identifier: Apache-2.0
#include "cmd/reshard/reshard_report.hpp"

#include "cmd/hold/hold_output.hpp"
#include "cmd/jobs/keeper_client.hpp"
#include "cmd/output/job_log.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/units.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

std::uint64_t bytes_of(const Draft& draft) {
    std::uint64_t bytes = 0;
    for (const FileEntry& file : draft.files) bytes += file.size;
    return bytes;
}

const ResourceBound* bound_of(const ReshardResult& done) {
    return done.least ? &done.least->resources[done.least->binding] : nullptr;
}

Json reshard_json(const ReshardJob& job, const ReshardOptions& options, const std::optional<ReshardResult>& done) {
    const Draft& draft = job.conversion.draft;
    Json json{{"source", options.checkpoint},
              {"output", options.output},
              {"format", formats::name(job.target.format)},
              {"layout", to_json(job.target.layout)},
              {"tensors", draft.tensors.size()},
              {"pieces", draft.pieces.size()},
              {"files", draft.files.size()},
              {"bytes", bytes_of(draft)},
              {"written", done.has_value()},
              {"notes", job.conversion.notes}};
    if (!done) return json;
    // Printed before the state is held; the exit status says whether holding succeeded.
    if (!options.hold.empty()) json["hold"] = fmt::format("{}{}", held_prefix, held_output_name(options));
    json["notes"] = done->printed_notes;
    for (const std::string& note : job.conversion.notes) json["notes"].push_back(note);
    json["durable"] = done->durable;
    json["bytes_read"] = done->report.bytes_read;
    json["bytes_written"] = done->report.bytes_written;
    json["bytes_shared"] = done->report.bytes_shared;
    json["bytes_kept"] = done->report.bytes_kept;
    json["seconds"] = done->seconds;
    if (done->verified) json["verified"] = to_json(*done->verified);
    json["threads"] = done->report.threads;
    for (std::size_t k = 0; k < stage_count; ++k) json["stages"][stage_names[k]] = done->report.stages[k];
    if (const ResourceBound* bound = bound_of(*done))
        json["bound"] = {{"seconds", bound->seconds},
                         {"resource", bound->resource},
                         {"efficiency", bound->seconds / std::max(done->seconds, 1e-9)}};
    return json;
}

/// The lower bound on the time of a stage, and the efficiency, as text; empty if the rate is unknown.
std::string least_of(const ReshardResult& done, Stage stage, double seconds) {
    if (!done.least || (stage != Stage::read && stage != Stage::write)) return "";
    const std::string_view disk = stage == Stage::read ? "disk read" : "disk write";
    const auto bound = std::ranges::find(done.least->resources, disk, &ResourceBound::resource);
    if (bound == done.least->resources.end() || bound->rate <= 0) return "";
    return fmt::format("{:>10} {:>9.0f} %", format_seconds(bound->seconds),
                       100 * bound->seconds / std::max(seconds, 1e-9));
}

void print_stages(const ReshardResult& done, Output& out) {
    const ExecReport& report = done.report;
    out.result("\n{:<9} {:>10} {:>8} {:>10}{}\n", "stage", "per thread", "of time", "bytes",
               done.least ? fmt::format(" {:>10} {:>11}", "at least", "efficiency") : "");
    for (std::size_t k = 0; k < stage_count; ++k) {
        const auto stage = static_cast<Stage>(k);
        const double seconds = report.stages[k];
        const std::string bytes = stage == Stage::read    ? format_size(report.bytes_read)
                                  : stage == Stage::write ? format_size(report.bytes_written)
                                                          : "";
        const std::string least = least_of(done, stage, seconds);
        out.result("{:<9} {:>10} {:>6.0f} % {:>10}{}{}\n", stage_names[k], format_seconds(seconds),
                   100 * seconds / std::max(done.seconds, 1e-9), bytes, least.empty() ? "" : " ", least);
    }
    const double staged = std::accumulate(report.stages.begin(), report.stages.end(), 0.0);
    const double other = std::max(done.seconds - staged, 0.0);
    out.result("{:<9} {:>10} {:>6.0f} %\n", "other", format_seconds(other), 100 * other / std::max(done.seconds, 1e-9));
}

void print_done(const ReshardResult& done, Output& out) {
    const ExecReport& report = done.report;
    if (report.bytes_kept > 0) out.result("reused {} written by earlier runs\n", format_size(report.bytes_kept));
    out.result("read {} and wrote {} in {}, {}\n", format_size(report.bytes_read), format_size(report.bytes_written),
               format_seconds(done.seconds),
               format_rate(static_cast<double>(report.bytes_written) / std::max(done.seconds, 1e-9)));
    if (report.bytes_shared > 0)
        out.result("{} of it shared with disk blocks of the source (reflinks)\n", format_size(report.bytes_shared));
    if (done.verified) out.result("{}\n", to_text(*done.verified));
    if (const ResourceBound* bound = bound_of(done))
        out.result("at least {}: {} at {}{}; that is {:.0f} % of the time taken\n", format_seconds(bound->seconds),
                   bound->resource, format_rate(bound->rate), bound->assumed ? ", assumed" : "",
                   100 * bound->seconds / std::max(done.seconds, 1e-9));
}

}  // namespace

void log_plan(const ReshardJob& job, const ReshardOptions& options) {
    log_event("plan", {{"reshard", reshard_json(job, options, std::nullopt)}});
}

void report(const ReshardJob& job, const ReshardOptions& options, const std::optional<ReshardResult>& done,
            Output& out) {
    const Draft& draft = job.conversion.draft;
    for (const std::string& note : job.conversion.notes) out.note("{}", note);
    log_event("result", {{"reshard", reshard_json(job, options, done)}});
    if (out.json()) return out.object("tpx.reshard/1", reshard_json(job, options, done));
    out.result("{}: {}, {} ({}), {} in {} and {}, {}\n", printable(options.output), formats::name(job.target.format),
               to_string(job.target.layout), counted(job.target.layout.ranks(), "rank"),
               counted(draft.tensors.size(), "tensor"), counted(draft.pieces.size(), "piece"),
               counted(draft.files.size(), "file"), format_bytes(static_cast<double>(bytes_of(draft))));
    if (!done) return out.result("nothing was written (--dry-run)\n");
    print_done(*done, out);
    if (options.stages) print_stages(*done, out);
}

}  // namespace tpx::cli
