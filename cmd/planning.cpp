// SPDX-License-Identifier: Apache-2.0
#include "cmd/planning.hpp"

#include "cmd/cli.hpp"
#include "cmd/plan_hosts.hpp"
#include "formats/model_file.hpp"
#include "formats/roles.hpp"
#include "formats/rules/rules.hpp"
#include "formats/stores.hpp"
#include "lib/core/error.hpp"
#include "lib/plan/piece_parcels.hpp"
#include "lib/plan/spread.hpp"

#include <algorithm>

namespace tpx::cli {
namespace {

StateIn given_state(const PlanOptions& options) {
    if (options.state == "memory") return StateIn::memory;
    if (options.state == "shared") return StateIn::shared;
    if (options.state == "stores" || !options.stores.empty()) return StateIn::stores;
    return options.model.empty() ? StateIn::shared : StateIn::memory;
}

// The pieces of the source by the ranks that hold them in memory: all replicas if the layout is known, else who wrote
// them.
std::vector<Piece> source_holdings(const formats::Source& source, const formats::Conversion& conversion) {
    if (source.layout && !is_deepspeed(source.checkpoint.format))
        return holdings(source.reading, source.checkpoint.catalogue.tensors, conversion.source_parts, *source.layout,
                        source.checkpoint.format);
    std::vector<Piece> held = conversion.source_pieces;
    for (Piece& piece : held) piece.rank = std::max(piece.rank, 0);
    return held;
}

// The pieces of the source by the hosts whose stores have their files: a host counts as one old rank.
std::vector<Piece> store_holdings(const std::vector<std::vector<std::uint32_t>>& hosts_of_files,
                                  const formats::Conversion& conversion) {
    std::vector<Piece> held;
    for (Piece piece : conversion.source_pieces) {
        for (std::uint32_t host : hosts_of_files[piece.file]) {
            piece.rank = static_cast<std::int32_t>(host);
            held.push_back(piece);
        }
    }
    return held;
}

int rank_count(std::span<const Piece> pieces) {
    std::int32_t highest = 0;
    for (const Piece& piece : pieces) highest = std::max(highest, piece.rank);
    return highest + 1;
}

// The role of each canonical tensor as an index into `names`.
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

std::vector<std::uint64_t> bytes_by_rank(std::span<const Tensor> tensors, std::span<const Piece> pieces, int ranks) {
    std::vector<std::uint64_t> bytes(static_cast<std::size_t>(ranks), 0);
    for (const Piece& piece : pieces)
        bytes[piece.rank] += static_cast<std::uint64_t>(volume(piece.box) * itemsize(tensors[piece.tensor].dtype));
    return bytes;
}

void place_and_relocate(Planned& planned, bool pin, bool storage) {
    planned.placement = place(planned.parcels, planned.hosts, planned.seats, pin);
    check_device_memory(planned.hosts, planned.placement, planned.held_after);
    planned.relocation =
        relocate(planned.parcels, planned.hosts, planned.seats, planned.placement, planned.state, storage);
}

// Fills `checkpoint` with what `options` make of the checkpoint at `path`.
void convert_checkpoint(CheckpointChange& change, const PlanOptions& options, const std::filesystem::path& path) {
    change.opened = open_checkpoint(path, options);
    change.target = given_target(options, options, change.opened.source);
    change.conversion = convert(change.opened.source, change.target);
    const formats::Conversion& conversion = change.conversion;
    change.plan = make_plan(conversion.source_side(), conversion.target_side());
    change.certificate = certify(conversion.source_side(), conversion.target_side(), change.plan);
    if (!change.certificate.holds()) throw failure("the plan is wrong, please report it: {}", change.certificate.fault);
    change.needed = is_deepspeed(change.target.format)
                        ? conversion.target_pieces
                        : holdings(conversion.expressed.reading, conversion.draft.tensors, conversion.target_parts,
                                   change.target.layout, change.target.format);
}

void seat_stores(Planned& planned) {
    for (std::int32_t h = 0; h < std::ssize(planned.hosts); ++h)
        planned.seats.push_back(planned.hosts[h].lost ? Seat{} : Seat{h, -1});
}

Planned plan_checkpoint(const PlanOptions& options) {
    Planned planned{.checkpoint = std::make_unique<CheckpointChange>(), .state = given_state(options)};
    CheckpointChange& change = *planned.checkpoint;
    std::optional<formats::MergedStores> merged;
    if (!options.stores.empty()) {
        if (options.hosts.empty() && options.hardware.empty()) throw Error{Exit::usage, "--stores needs --hosts"};
        planned.hosts = given_hosts(options, 1);
        if (options.checkpoint.empty()) merged.emplace(options.stores, planned.hosts);
    }
    const std::filesystem::path root = merged ? merged->folder() : std::filesystem::path{options.checkpoint};
    convert_checkpoint(change, options, root);
    const formats::Source& source = change.opened.source;
    planned.from = source.layout;
    if (!options.from.empty() && !(source.layout && given_layout(options.from) == *source.layout))
        throw Error{Exit::usage, "--from {}: the checkpoint says {}", options.from,
                    source.layout ? to_string(*source.layout) : "that no layout explains it"};
    planned.to = change.target.layout;
    if (options.stores.empty()) {
        change.held = source_holdings(source, change.conversion);
        const int old_ranks = source.layout ? source.layout->ranks() : rank_count(change.held);
        planned.hosts = given_hosts(options, std::max(old_ranks, planned.to.ranks()));
        planned.seats = given_seats(options, planned.hosts, old_ranks);
    } else {
        const auto holders = formats::hosts_of_files(options.stores, planned.hosts, root, source.checkpoint.catalogue);
        change.held = store_holdings(holders, change.conversion);
        seat_stores(planned);
    }
    change.roles_of_tensors = number_roles(change.conversion, change.roles);
    planned.parcels =
        parcels_of({change.conversion.source_tensors, change.held}, {change.conversion.target_tensors, change.needed},
                   change.roles_of_tensors, change.roles, static_cast<int>(planned.seats.size()), planned.to.ranks());
    planned.held_before = bytes_by_rank(change.conversion.source_tensors, change.held, planned.parcels.old_ranks);
    planned.held_after = bytes_by_rank(change.conversion.target_tensors, change.needed, planned.parcels.new_ranks);
    place_and_relocate(planned, options.pin, !merged && planned.state != StateIn::memory);
    const std::vector<Load> loads =
        planned.state == StateIn::shared
            ? storage_loads(planned.hosts, change.certificate.bytes_read, change.certificate.bytes_written)
            : planned.relocation.hosts;
    planned.prediction = predict(planned.hosts, loads);
    return planned;
}

}  // namespace

ModelState given_model(const PlanOptions& options) {
    const std::vector<std::filesystem::path> files{options.rules.begin(), options.rules.end()};
    return formats::read_model(options.model, formats::load_families(files), given_config(options),
                               options.roles.empty() ? "train" : options.roles);
}

void plan_model(Planned& planned, const ModelState& model, const Layout& from, const Layout& to, bool pin) {
    planned.model = model;
    planned.from = from;
    planned.to = to;
    planned.parcels = spread(model, from, to);
    planned.held_before = held_bytes(model, from);
    planned.held_after = held_bytes(model, to);
    place_and_relocate(planned, pin, planned.state == StateIn::shared);
    planned.prediction = predict(planned.hosts, planned.relocation.hosts);
}

Planned make_planned(const PlanOptions& options) {
    if (options.model.empty()) {
        if (!options.roles.empty()) throw Error{Exit::usage, "--roles: a checkpoint says itself what it keeps"};
        return plan_checkpoint(options);
    }
    if (!options.checkpoint.empty()) throw Error{Exit::usage, "CKPT and --model exclude each other"};
    if (!options.stores.empty()) throw Error{Exit::usage, "--stores and --model exclude each other"};
    if (options.from.empty()) throw Error{Exit::usage, "--model needs --from LAYOUT"};
    if (!options.format.empty() || !options.dialect.empty())
        throw Error{Exit::usage, "--format and --dialect are for checkpoints, not for --model"};
    const Layout from = given_layout(options.from);
    const Layout to = given_layout(options.to);
    Planned planned{.state = given_state(options)};
    planned.hosts = given_hosts(options, std::max(from.ranks(), to.ranks()));
    planned.seats = given_seats(options, planned.hosts, from.ranks());
    plan_model(planned, given_model(options), from, to, options.pin);
    return planned;
}

}  // namespace tpx::cli
