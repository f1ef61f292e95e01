// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/cli.hpp"
#include "cmd/jobs/check_copies.hpp"
#include "cmd/jobs/keeper_client.hpp"
#include "cmd/plan/plan_hosts.hpp"
#include "cmd/plan/planning.hpp"
#include "formats/convert/rank_holdings.hpp"
#include "formats/driver.hpp"
#include "formats/files/merged_stores.hpp"
#include "formats/files/stores_check.hpp"
#include "formats/state/roles.hpp"
#include "lib/change/piece_parcels.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/fingerprint.hpp"
#include "lib/core/in_path.hpp"
#include "lib/core/unexpected.hpp"

#include <algorithm>

namespace tpx::cli {
namespace {

// The pieces of the source that the store of each host contains; each host counts as one old rank.
std::vector<Piece> store_holdings(std::span<const std::vector<std::uint32_t>> hosts_of_files,
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

// The role of each canonical tensor as an index into `named`.
std::vector<std::uint32_t> number_roles(const CheckpointChange& change, std::vector<Role>& named) {
    std::vector<std::uint32_t> numbers(change.conversion.target_tensors.size(), 0);
    const std::vector<Role> roles = formats::roles_of_draft(change.opened.source, change.conversion);
    for (std::size_t t = 0; t < roles.size(); ++t) {
        auto found = std::ranges::find(named, roles[t]);
        if (found == named.end()) found = named.insert(named.end(), roles[t]);
        for (const formats::NumberedPart& part : change.conversion.target_parts[t])
            numbers[part.number] = static_cast<std::uint32_t>(found - named.begin());
    }
    return numbers;
}

// The layout of the old ranks: --from or, by default, the layout that the boxes of the checkpoint show. Throws Error
// (usage) if the boxes contradict --from, or if they do not show how many ranks there were.
std::optional<Layout> old_layout(const PlanOptions& options, const formats::Source& source) {
    const Catalogue& catalogue = source.checkpoint.catalogue;
    if (options.from.empty()) {
        const std::string open = formats::missing_ranks_warning(source);
        if (!open.empty())
            throw Error{Exit::usage, "{}: {}; pass its layout with --from LAYOUT", catalogue.directory.string(), open};
        return source.layout;
    }
    const Layout from = layout_from_text_or_file(options.from);
    const std::string seen = source.layout ? to_string(*source.layout) : "no layout that explains every box";
    if (source.layout && from == *source.layout) return from;
    if (source.checkpoint.format->has_param_groups ||
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

// Plans the conversion. Adds `path` to errors, except for errors in options, such as an invalid layout.
formats::Conversion converted(CheckpointChange& change, const std::filesystem::path& path) {
    try {
        return reading(path, [&] { return convert(change.opened.source, change.target); });
    } catch (const Error& error) {
        if (error.exit() == Exit::usage) throw;
        return in_path(path.string(), [&]() -> formats::Conversion { throw; });
    }
}

// Adds `note` unless it is empty or already present.
void add_note(CheckpointChange& change, std::string note) {
    std::vector<std::string>& notes = change.conversion.notes;
    if (!note.empty() && std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
}

// Opens the checkpoint at `path`, or takes `opened`, and fills `change` with its conversion according to `options`.
void convert_checkpoint(CheckpointChange& change, const PlanOptions& options, const std::filesystem::path& path,
                        const OpenedCheckpoint* opened) {
    change.opened = opened != nullptr ? *opened : open_checkpoint(path, options);
    if (!options.output.empty()) change.source_digest = catalogue_digest(change.opened.source.checkpoint.catalogue);
    change.target = target_from_options(options, options, change.opened.source);
    change.conversion = converted(change, path);
    const formats::Conversion& conversion = change.conversion;
    in_path(path.string(), [&] {
        if (!change.opened.copies_are_equal)
            check_copies({}, conversion, change.opened.source.checkpoint.catalogue, {});
        change.moves = make_moves(conversion.source_side(), conversion.target_side());
        change.certificate = certify(conversion.source_side(), conversion.target_side(), change.moves);
        if (!change.certificate.holds())
            throw failure("the plan is wrong, please report it: {}", change.certificate.fault);
        formats::RankHoldings needed = formats::needed_pieces(change.opened.source, conversion, change.target);
        change.needed = std::move(needed.pieces);
        add_note(change, std::move(needed.note));
    });
}

// Checks that the stores contain parts of one checkpoint: equal names and sizes of files do not prove it.
void check_stores(CheckpointChange& change, const PlanOptions& options, std::span<const Host> hosts,
                  const std::filesystem::path& root, const ReadRecord& record) {
    const std::size_t sampled =
        formats::check_one_checkpoint(options.stores, hosts, root, change.opened.source.checkpoint, record);
    if (sampled > 0)
        change.conversion.notes.push_back(
            fmt::format("{} of more than 16 MiB that several stores have {} compared by size and samples",
                        counted(sampled, "file"), sampled == 1 ? "was" : "were"));
}

std::optional<std::uint64_t> recorded_iteration(const formats::Source& source) {
    const std::optional<std::int64_t> iteration = source.checkpoint.iteration;
    return iteration && *iteration >= 0 ? std::optional{static_cast<std::uint64_t>(*iteration)} : std::nullopt;
}

// The iteration of the checkpoint on shared storage, as recorded or given. Throws Error if these differ.
std::optional<std::uint64_t> storage_iteration(const PlanOptions& options, const formats::Source& source) {
    const auto given = unsigned_of(options.storage_iteration);
    const auto recorded = recorded_iteration(source);
    if (given && recorded && given != recorded)
        throw failure("{}: records iteration {}, not {} (--storage-iteration)",
                      source.checkpoint.catalogue.directory.string(), *recorded, *given);
    return recorded ? recorded : given;
}

// Sets the iteration of hosts that have files to the recorded one, for which check_one_checkpoint() has checked the
// stores. Throws Error if a host has a different iteration.
void set_iterations(std::vector<Host>& hosts, const std::vector<std::vector<std::uint32_t>>& hosts_of_files,
                    std::optional<std::uint64_t> recorded) {
    if (!recorded) return;
    for (const std::vector<std::uint32_t>& holders : hosts_of_files) {
        for (std::uint32_t host : holders) {
            if (hosts[host].iteration.value_or(*recorded) != *recorded)
                throw failure("the store of host '{}' records iteration {}, not {}", hosts[host].name, *recorded,
                              *hosts[host].iteration);
            hosts[host].iteration = recorded;
        }
    }
}

// The hosts of a change, and where the old ranks are.
struct Place {
    std::vector<Host> hosts;
    std::vector<RankLocation> rank_locations;
};

// Each host counts as one old rank, whose state is in the store of the host.
Place on_stores(std::vector<Host> hosts) {
    std::vector<RankLocation> rank_locations;
    for (std::int32_t h = 0; h < std::ssize(hosts); ++h)
        rank_locations.push_back(hosts[h].lost ? RankLocation{} : RankLocation{h, -1});
    return {std::move(hosts), std::move(rank_locations)};
}

Place place_of_stores(const PlanOptions& options, std::vector<Host> hosts, PlanReport& report,
                      const std::filesystem::path& root) {
    CheckpointChange& files = *report.checkpoint;
    const formats::Source& source = files.opened.source;
    report.from = options.from.empty() ? source.layout : old_layout(options, source);
    const auto holders = formats::hosts_of_files(options.stores, hosts, root, source.checkpoint.catalogue);
    files.held = store_holdings(holders, files.conversion);
    set_iterations(hosts, holders, recorded_iteration(source));
    return on_stores(std::move(hosts));
}

Place place_of_stored(const StoredOnHosts& stored, PlanReport& report) {
    CheckpointChange& files = *report.checkpoint;
    report.from = files.opened.source.layout;
    files.held = store_holdings(formats::with_computed_files({stored.holders.begin(), stored.holders.end()},
                                                             files.opened.source.checkpoint.catalogue),
                                files.conversion);
    return on_stores({stored.hosts.begin(), stored.hosts.end()});
}

Place place_of_ranks(const PlanOptions& options, PlanReport& report) {
    CheckpointChange& files = *report.checkpoint;
    const formats::Source& source = files.opened.source;
    report.from = old_layout(options, source);
    formats::RankHoldings held = report.from ? formats::held_pieces(source, files.conversion, *report.from)
                                             : formats::RankHoldings{formats::written_pieces(files.conversion), ""};
    files.held = std::move(held.pieces);
    add_note(files, std::move(held.note));
    const int old_ranks = report.from ? report.from->ranks() : rank_count(files.held);
    std::vector<Host> hosts = hosts_from_options(options, std::max(old_ranks, report.to.ranks()));
    std::vector<RankLocation> rank_locations = locations_of_old_ranks(options, hosts, old_ranks, report.notes);
    return {std::move(hosts), std::move(rank_locations)};
}

// Opens the checkpoint, or the union of the stores, and plans its conversion; returns the folder that was read.
std::filesystem::path read_checkpoint(CheckpointChange& files, const PlanOptions& options,
                                      std::optional<formats::MergedStores>& merged, std::span<const Host> hosts,
                                      const OpenedCheckpoint* opened) {
    const std::filesystem::path root = merged ? merged->folder() : std::filesystem::path{options.checkpoint};
    const auto read = [&] {
        const ReadRecord record;
        convert_checkpoint(files, options, root, opened);
        if (!options.stores.empty()) check_stores(files, options, hosts, root, record);
    };
    merged ? merged->in_stores(read) : read();
    files.path = replace_held_paths(files.opened.source.checkpoint.catalogue.directory.string());
    if (merged) files.path = merged->named(files.path);
    return root;
}

}  // namespace

PlanReport plan_checkpoint(const PlanOptions& options, const OpenedCheckpoint* opened, const StoredOnHosts* stored) {
    PlanReport report{.checkpoint = std::make_unique<CheckpointChange>()};
    CheckpointChange& files = *report.checkpoint;
    std::optional<formats::MergedStores> merged;
    std::vector<Host> hosts;
    if (!options.stores.empty()) {
        if (options.hosts.empty() && options.hardware.empty()) throw Error{Exit::usage, "--stores needs --hosts"};
        hosts = hosts_from_options(options, 1);
        if (options.checkpoint.empty()) merged.emplace(options.stores, hosts);
    }
    const std::filesystem::path root = read_checkpoint(files, options, merged, hosts, opened);
    const formats::Conversion& conversion = files.conversion;
    report.to = files.target.layout;
    Place at = stored != nullptr        ? place_of_stored(*stored, report)
               : options.stores.empty() ? place_of_ranks(options, report)
                                        : place_of_stores(options, std::move(hosts), report, root);
    files.roles_of_tensors = number_roles(files, files.roles);
    add_note(files, uncounted_tensors_note(files.opened.source, conversion, files.target));
    const int old_ranks = static_cast<int>(at.rank_locations.size());
    Parcels parcels = parcels_of({conversion.source_tensors, files.held}, {conversion.target_tensors, files.needed},
                                 files.roles_of_tensors, files.roles, old_ranks, report.to.ranks());
    ChangeOptions change = change_options(options);
    change.may_read = !merged && stored == nullptr && change.state != StateMedium::memory;
    change.in_rounds = opened == nullptr;
    change.storage_iteration = storage_iteration(options, files.opened.source);
    change.stored = {files.certificate.bytes_read, files.certificate.bytes_written};
    change.held_before = bytes_by_rank(conversion.source_tensors, files.held, old_ranks);
    change.held_after = bytes_by_rank(conversion.target_tensors, files.needed, report.to.ranks());
    complete(report, options, std::move(parcels), std::move(at.hosts), std::move(at.rank_locations), std::move(change));
    return report;
}

}  // namespace tpx::cli
