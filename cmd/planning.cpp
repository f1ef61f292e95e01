// SPDX-License-Identifier: Apache-2.0
#include "cmd/planning.hpp"

#include "cmd/check_copies.hpp"
#include "cmd/cli.hpp"
#include "cmd/plan_hosts.hpp"
#include "formats/holding.hpp"
#include "formats/model_file.hpp"
#include "formats/roles.hpp"
#include "formats/rules/rules.hpp"
#include "formats/stores.hpp"
#include "formats/stores_check.hpp"
#include "lib/change/piece_parcels.hpp"
#include "lib/change/spread.hpp"
#include "lib/core/error.hpp"
#include "lib/core/unexpected.hpp"
#include "lib/core/units.hpp"

#include <algorithm>

namespace tpx::cli {
namespace {

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
std::vector<std::uint32_t> number_roles(const CheckpointChange& change, std::vector<std::string>& names) {
    std::vector<std::uint32_t> numbers(change.conversion.target_tensors.size(), 0);
    const std::vector<std::string> roles = formats::roles_of_draft(change.opened.source, change.conversion);
    for (std::size_t t = 0; t < roles.size(); ++t) {
        auto found = std::ranges::find(names, roles[t]);
        if (found == names.end()) found = names.insert(names.end(), roles[t]);
        for (const formats::NumberedPart& part : change.conversion.target_parts[t])
            numbers[part.number] = static_cast<std::uint32_t>(found - names.begin());
    }
    return numbers;
}

// The layout of the old ranks: what --from says, if the checkpoint's boxes agree with it, or else what they show.
// Throws Error (usage) where they leave open how many ranks there were.
std::optional<Layout> old_layout(const PlanOptions& options, const formats::Source& source) {
    const Catalogue& catalogue = source.checkpoint.catalogue;
    if (options.from.empty()) {
        const std::string open = formats::missing_ranks(source);
        if (!open.empty())
            throw Error{Exit::usage, "{}: {}; say which layout it had with --from LAYOUT", catalogue.directory.string(),
                        open};
        return source.layout;
    }
    const Layout from = given_layout(options.from);
    const std::string seen = source.layout ? to_string(*source.layout) : "no layout that explains every box";
    if (source.layout && from == *source.layout) return from;
    if (is_deepspeed(source.checkpoint.format) ||
        !is_consistent(from, catalogue, source.reading, formats::cutting_of(source.checkpoint.format)))
        throw Error{Exit::usage, "--from {}: does not fit the boxes and ranks of {}, which show {}", options.from,
                    catalogue.directory.string(), seen};
    return from;
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
    planned.relocation = planned.in_rounds ? relocate(planned.parcels, planned.hosts, planned.seats, planned.placement,
                                                      planned.state, storage, planned.window)
                                           : relocate_without_rounds(planned.parcels, planned.hosts, planned.seats,
                                                                     planned.placement, planned.state, storage);
}

// Fills `checkpoint` with what `options` make of the checkpoint at `path`.
void convert_checkpoint(CheckpointChange& change, const PlanOptions& options, const std::filesystem::path& path,
                        const Opened* opened) {
    change.opened = opened != nullptr ? *opened : open_checkpoint(path, options);
    change.target = given_target(options, options, change.opened.source);
    change.conversion = reading(path, [&] { return convert(change.opened.source, change.target); });
    const formats::Conversion& conversion = change.conversion;
    in_context([&] { return path.string(); },
               [&] { check_copies({}, conversion, change.opened.source.checkpoint.catalogue, {}); });
    change.plan = make_plan(conversion.source_side(), conversion.target_side());
    change.certificate = certify(conversion.source_side(), conversion.target_side(), change.plan);
    if (!change.certificate.holds()) throw failure("the plan is wrong, please report it: {}", change.certificate.fault);
    change.needed = formats::needed_pieces(change.opened.source, conversion, change.target);
}

// The stores must hold parts of one checkpoint: files of equal names and sizes are no proof of it.
void check_stores(CheckpointChange& change, const PlanOptions& options, std::span<const Host> hosts,
                  const std::filesystem::path& root, const ReadRecord& record) {
    const std::size_t sampled =
        formats::check_one_checkpoint(options.stores, hosts, root, change.opened.source.checkpoint, record);
    if (sampled > 0)
        change.conversion.notes.push_back(fmt::format(
            "{} files of more than 16 MiB that several stores have were compared by size and samples", sampled));
}

void seat_stores(Planned& planned) {
    for (std::int32_t h = 0; h < std::ssize(planned.hosts); ++h)
        planned.seats.push_back(planned.hosts[h].lost ? Seat{} : Seat{h, -1});
}

Planned plan_checkpoint(const PlanOptions& options, const Opened* opened = nullptr) {
    Planned planned{.checkpoint = std::make_unique<CheckpointChange>(), .state = given_state(options)};
    planned.in_rounds = opened == nullptr;
    planned.window = options.window.value_or(default_window);
    CheckpointChange& change = *planned.checkpoint;
    std::optional<formats::MergedStores> merged;
    if (!options.stores.empty()) {
        if (options.hosts.empty() && options.hardware.empty()) throw Error{Exit::usage, "--stores needs --hosts"};
        planned.hosts = given_hosts(options, 1);
        if (options.checkpoint.empty()) merged.emplace(options.stores, planned.hosts);
    }
    const std::filesystem::path root = merged ? merged->folder() : std::filesystem::path{options.checkpoint};
    {
        const ReadRecord record;
        convert_checkpoint(change, options, root, opened);
        if (!options.stores.empty()) check_stores(change, options, planned.hosts, root, record);
    }
    const formats::Source& source = change.opened.source;
    planned.to = change.target.layout;
    if (options.stores.empty()) {
        planned.from = old_layout(options, source);
        change.held = planned.from ? formats::held_pieces(source, change.conversion, *planned.from)
                                   : formats::written_pieces(change.conversion);
        const int old_ranks = planned.from ? planned.from->ranks() : rank_count(change.held);
        planned.hosts = given_hosts(options, std::max(old_ranks, planned.to.ranks()));
        planned.seats = given_seats(options, planned.hosts, old_ranks);
    } else {
        planned.from = options.from.empty() ? source.layout : old_layout(options, source);
        const auto holders = formats::hosts_of_files(options.stores, planned.hosts, root, source.checkpoint.catalogue);
        change.held = store_holdings(holders, change.conversion);
        seat_stores(planned);
    }
    change.roles_of_tensors = number_roles(change, change.roles);
    for (std::string& note : counting_notes(source, change.conversion, planned.from.value_or(Layout{}), change.target))
        change.conversion.notes.push_back(std::move(note));
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
    planned.prediction =
        predict(planned.hosts, loads, planned.state == StateIn::memory ? RankMemory::device : RankMemory::host);
    return planned;
}

}  // namespace

StateIn given_state(const PlanOptions& options) {
    if (options.state == "memory") return StateIn::memory;
    if (options.state == "shared") return StateIn::shared;
    if (options.state == "stores" || !options.stores.empty()) return StateIn::stores;
    return options.model.empty() ? StateIn::shared : StateIn::memory;
}

ModelState given_model(const PlanOptions& options) {
    const std::vector<std::filesystem::path> files{options.rules.begin(), options.rules.end()};
    const std::vector<Family> families = formats::load_families(files);
    ReadOptions file;
    file.config = options.config;
    check_settings(options, families, given_config(file));
    return formats::read_model(options.model, families, given_config(options),
                               options.roles.empty() ? "train" : options.roles);
}

void plan_model(Planned& planned, const ModelState& model, const Layout& from, const Layout& to, bool pin) {
    planned.model = model;
    planned.from = from;
    planned.to = to;
    planned.parcels = spread(model, from, to);
    if (planned.in_rounds) planned.held_before = held_bytes(model, from);
    planned.held_after = held_bytes(model, to);
    place_and_relocate(planned, pin, planned.state == StateIn::shared);
    const bool is_mixed = planned.relocation.total.storage > 0;
    if (planned.state == StateIn::shared && !is_mixed) {
        planned.prediction = predict(planned.hosts, reading_loads(planned.parcels, planned.placement, planned.hosts));
        return;
    }
    if (is_mixed)
        planned.notes.push_back(fmt::format(
            "{} are on no host any more and are read from shared storage, the rest is taken from the memory of hosts: "
            "they belong together only if the checkpoint on storage is of the iteration that is in memory",
            format_bytes(static_cast<double>(planned.relocation.total.storage))));
    planned.prediction = predict(planned.hosts, planned.relocation.hosts,
                                 planned.state == StateIn::stores ? RankMemory::host : RankMemory::device);
}

Planned make_unscheduled(const PlanOptions& options, const Opened& opened) { return plan_checkpoint(options, &opened); }

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
    planned.window = options.window.value_or(default_window);
    planned.hosts = given_hosts(options, std::max(from.ranks(), to.ranks()));
    planned.seats = given_seats(options, planned.hosts, from.ranks());
    plan_model(planned, given_model(options), from, to, options.pin);
    return planned;
}

}  // namespace tpx::cli
