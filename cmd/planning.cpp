// SPDX-License-Identifier: Apache-2.0
#include "cmd/planning.hpp"

#include "cmd/cli.hpp"
#include "formats/plan/hosts_file.hpp"
#include "formats/plan/plan_check.hpp"
#include "formats/plan/plan_file.hpp"
#include "lib/core/error.hpp"
#include "lib/core/fingerprint.hpp"
#include "lib/core/units.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace tpx::cli {
namespace {

/// The pieces of the source by the ranks that hold them in memory: all replicas if the layout is known, else who wrote
/// them.
std::vector<Piece> source_holdings(const formats::Source& source, const formats::Conversion& conversion) {
    if (source.layout)
        return holdings(source.reading, source.checkpoint.catalogue.tensors, conversion.source_parts, *source.layout,
                        source.checkpoint.format);
    std::vector<Piece> held = conversion.source_pieces;
    for (Piece& piece : held) piece.rank = std::max(piece.rank, 0);
    return held;
}

int rank_count(std::span<const Piece> pieces) {
    std::int32_t highest = 0;
    for (const Piece& piece : pieces) highest = std::max(highest, piece.rank);
    return highest + 1;
}

/// The role of each canonical tensor as an index into `names`.
std::vector<std::uint32_t> number_roles(const formats::Conversion& conversion, std::vector<std::string>& names) {
    std::vector<std::uint32_t> roles(conversion.target_tensors.size(), 0);
    for (std::size_t t = 0; t < conversion.target_parts.size(); ++t) {
        const Meaning& meaning = conversion.expressed.reading.meanings[t];
        const std::string role{meaning.kind == Meaning::Kind::extra ? "extra" : meaning.role};
        auto found = std::ranges::find(names, role);
        if (found == names.end()) found = names.insert(names.end(), role);
        for (const formats::NumberedPart& part : conversion.target_parts[t])
            roles[part.number] = static_cast<std::uint32_t>(found - names.begin());
    }
    return roles;
}

}  // namespace

Planned make_planned(formats::Source& source, const formats::Target& target, const std::string& hosts) {
    Planned planned{.conversion = convert(source, target)};
    const formats::Conversion& conversion = planned.conversion;
    planned.plan = make_plan(conversion.source_side(), conversion.target_side());
    planned.certificate = certify(conversion.source_side(), conversion.target_side(), planned.plan);

    const std::vector<Piece> before = source_holdings(source, conversion);
    const std::vector<Piece> after = holdings(conversion.expressed.reading, conversion.draft.tensors,
                                              conversion.target_parts, target.layout, target.format);
    const int old_ranks = source.layout ? source.layout->ranks() : rank_count(before);
    planned.hosts =
        hosts.empty() ? uniform_hosts(1, std::max(old_ranks, target.layout.ranks())) : formats::read_hosts(hosts);
    const std::vector<std::uint32_t> old_hosts = host_of_rank(planned.hosts, old_ranks);
    const std::vector<std::uint32_t> new_hosts = host_of_rank(planned.hosts, target.layout.ranks());
    const std::vector<std::uint32_t> roles = number_roles(conversion, planned.roles);
    planned.movement = movement({.source = {conversion.source_tensors, before},
                                 .target = {conversion.target_tensors, after},
                                 .hosts = planned.hosts,
                                 .source_hosts = old_hosts,
                                 .target_hosts = new_hosts,
                                 .roles = roles});
    const std::vector<Load> loads =
        storage_loads(planned.hosts, planned.certificate.bytes_read, planned.certificate.bytes_written);
    planned.prediction = predict(planned.hosts, loads);
    return planned;
}

void write_plan(const formats::Source& source, const formats::Target& target, const Planned& planned,
                const std::filesystem::path& file) {
    const formats::Conversion& conversion = planned.conversion;
    formats::PlanFile content;
    content.version = version();
    content.from = source.layout ? to_string(*source.layout) : "";
    content.to = to_string(target.layout);
    formats::CheckpointPlan& change = content.checkpoint.emplace();
    change.path = source.checkpoint.catalogue.directory.string();
    change.source_digest = catalogue_digest(source.checkpoint.catalogue);
    change.settings.format = formats::name(target.format);
    change.settings.dialect = target.dialect;
    change.settings.config = target.config;
    change.tensors = conversion.source_tensors;
    change.source_files = source.checkpoint.catalogue.files;
    change.target_files = conversion.draft.files;
    change.source = conversion.source_pieces;
    change.target = conversion.target_pieces;
    change.plan = planned.plan;
    change.proven = planned.certificate;
    for (const Tensor& tensor : conversion.target_tensors) change.target_dtypes.push_back(tensor.dtype);
    formats::write_plan_file(file, content);
}

void check_plan(const formats::Source& source, const std::filesystem::path& file, Output& out) {
    const formats::CheckedPlan plan = formats::check_plan_file(file);
    if (!plan.moves) throw Error{Exit::usage, "{}: a plan for a model, not for a checkpoint", file.string()};
    if (plan.catalogue != catalogue_digest(source.checkpoint.catalogue))
        throw Error{Exit::no, "{}: was made for another checkpoint than {} (catalogue digest {:016x})", file.string(),
                    source.checkpoint.catalogue.directory.string(), *plan.catalogue};
    if (!plan.holds()) throw Error{Exit::no, "{}: {}", file.string(), plan.fault};
    const Certificate& proven = *plan.moves;
    if (out.json())
        return out.object("tpx.plan-check/1", {{"plan", file.string()},
                                               {"holds", true},
                                               {"from", plan.from},
                                               {"to", plan.to},
                                               {"moves", proven.moves},
                                               {"targets", proven.targets},
                                               {"elements", proven.elements},
                                               {"read", proven.bytes_read},
                                               {"write", proven.bytes_written}});
    out.result("{}: holds: {} moves cover {} pieces of {} once each, {} read, {} written\n", file.string(),
               proven.moves, proven.targets, plan.to, format_bytes(static_cast<double>(proven.bytes_read)),
               format_bytes(static_cast<double>(proven.bytes_written)));
}

}  // namespace tpx::cli
