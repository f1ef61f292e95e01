// SPDX-License-Identifier: Apache-2.0
#include "cmd/commands.hpp"
#include "cmd/output.hpp"
#include "cmd/planning.hpp"
#include "cmd/reading.hpp"
#include "lib/core/error.hpp"
#include "lib/core/units.hpp"

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Bytes& bytes) {
    return {{"needed", bytes.needed},
            {"kept", bytes.kept},
            {"same_host", bytes.same_host},
            {"other_host", bytes.other_host}};
}

Json side_json(formats::Format format, const Reading& reading, const std::optional<Layout>& layout) {
    return {{"format", formats::name(format)},
            {"dialect", reading.dialect ? Json(reading.dialect->name) : nullptr},
            {"layout", layout ? cli::to_json(*layout) : Json(nullptr)}};
}

Json report_json(const formats::Source& source, const formats::Target& target, const Planned& planned) {
    Json json{{"checkpoint", source.checkpoint.catalogue.directory.string()},
              {"from", side_json(source.checkpoint.format, source.reading, source.layout)},
              {"to", side_json(target.format, planned.conversion.expressed.reading, target.layout)},
              {"read", planned.certificate.bytes_read},
              {"write", planned.certificate.bytes_written},
              {"moves", planned.certificate.moves},
              {"pieces", planned.conversion.draft.pieces.size()},
              {"files", planned.conversion.draft.files.size()},
              {"total", to_json(planned.movement.total)}};
    for (std::size_t r = 0; r < planned.roles.size(); ++r)
        json["roles"][planned.roles[r]] = to_json(planned.movement.roles[r]);
    for (std::size_t h = 0; h < planned.hosts.size(); ++h)
        json["hosts"].push_back({{"name", planned.hosts[h].name},
                                 {"nic_in", planned.movement.hosts[h].nic_in},
                                 {"nic_out", planned.movement.hosts[h].nic_out}});
    json["certificate"] = {{"covered", planned.certificate.holds()},
                           {"elements", planned.certificate.elements},
                           {"between_hosts", planned.movement.total.other_host},
                           {"between_hosts_bound", planned.movement.bound},
                           {"minimal", planned.movement.meets_bound()}};
    for (const ResourceBound& bound : planned.prediction.resources)
        json["resources"].push_back({{"resource", bound.resource},
                                     {"seconds", bound.seconds},
                                     {"bytes", bound.bytes},
                                     {"rate", bound.rate},
                                     {"assumed", bound.assumed}});
    json["seconds"] = planned.prediction.seconds();
    json["binding"] = planned.prediction.resources[planned.prediction.binding].resource;
    json["notes"] = planned.conversion.notes;
    return json;
}

std::string spoken_side(formats::Format format, const Reading& reading, const std::optional<Layout>& layout) {
    const std::string names = reading.dialect ? fmt::format(", {} names", reading.dialect->name) : "";
    const std::string shape =
        layout ? fmt::format(", {} ({} rank{})", to_string(*layout), layout->ranks(), layout->ranks() == 1 ? "" : "s")
               : "";
    return fmt::format("{}{}{}", formats::name(format), names, shape);
}

void report_text(const formats::Source& source, const formats::Target& target, const Planned& planned, Output& out) {
    const auto size = [](std::uint64_t bytes) { return format_bytes(static_cast<double>(bytes)); };
    out.result("from   {}\n", spoken_side(source.checkpoint.format, source.reading, source.layout));
    out.result("to     {}\n", spoken_side(target.format, planned.conversion.expressed.reading, target.layout));
    out.result("read   {} in {} moves, write {} in {} pieces and {} files\n\n", size(planned.certificate.bytes_read),
               planned.certificate.moves, size(planned.certificate.bytes_written),
               planned.conversion.draft.pieces.size(), planned.conversion.draft.files.size());
    out.result("{:<12} {:>10} {:>10} {:>10} {:>10}\n", "role", "needed", "kept", "same host", "other host");
    const auto row = [&](const std::string& role, const Bytes& bytes) {
        out.result("{:<12} {:>10} {:>10} {:>10} {:>10}\n", role, size(bytes.needed), size(bytes.kept),
                   size(bytes.same_host), size(bytes.other_host));
    };
    for (std::size_t r = 0; r < planned.roles.size(); ++r) row(planned.roles[r], planned.movement.roles[r]);
    if (planned.roles.size() > 1) row("all", planned.movement.total);
    out.result("\nproof  every element written has one source; {} between hosts, the least possible is {}\n",
               size(planned.movement.total.other_host), size(planned.movement.bound));
    const ResourceBound& bound = planned.prediction.resources[planned.prediction.binding];
    out.result("time   at least {} through shared storage: {} at {}{}\n", format_seconds(bound.seconds), bound.resource,
               format_rate(bound.rate), bound.assumed ? ", assumed" : "");
}

void list_moves(const formats::Source& source, const Planned& planned, Output& out) {
    const formats::Conversion& conversion = planned.conversion;
    for (const Move& move : planned.plan.moves) {
        const Piece& from = conversion.source_pieces[move.source];
        const Piece& to = conversion.target_pieces[move.target];
        out.result("{} {} {} -> {}\n", conversion.target_tensors[to.tensor].name, to_string(move.box),
                   source.checkpoint.catalogue.files[from.file].path.string(),
                   conversion.draft.files[to.file].path.string());
    }
}

}  // namespace

void run_plan(const PlanOptions& options, Output& out) {
    if (!is_first_rank()) return;
    Opened opened = open_checkpoint(options.checkpoint, options);
    if (!options.check.empty()) return check_plan(opened.source, options.check, out);
    const formats::Target target = given_target(options, options, opened.source);
    const Planned planned = make_planned(opened.source, target, options.hosts);
    for (const std::string& note : planned.conversion.notes) out.note("{}", note);
    if (!planned.certificate.holds())
        throw failure("the plan is wrong, please report it: {}", planned.certificate.fault);
    if (options.list) return list_moves(opened.source, planned, out);
    if (!options.output.empty()) write_plan(opened.source, target, planned, options.output);
    out.json() ? out.object("tpx.plan/1", report_json(opened.source, target, planned))
               : report_text(opened.source, target, planned, out);
}

}  // namespace tpx::cli
