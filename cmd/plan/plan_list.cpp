// SPDX-License-Identifier: Apache-2.0
#include "cmd/plan/plan_report.hpp"
#include "lib/change/model_parcels.hpp"
#include "lib/change/piece_parcels.hpp"

#include <algorithm>
#include <optional>
#include <span>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

// The elements whose bytes are `begin` up to `end` of a parcel. For a checkpoint, `layers` and `experts` are empty.
struct Part {
    std::string tensor;
    std::vector<int> layers;
    Interval experts;  // empty: not a tensor of experts
    Box box;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

// The parts of the parcels that are sent, by parcel.
std::vector<std::vector<Part>> parts_of(const PlanReport& report) {
    std::vector<std::vector<Part>> parts(report.change.parcels.parcels.size());
    std::vector<bool> is_sent(parts.size(), false);
    for (const Transfer& transfer : report.change.relocation.transfers) is_sent[transfer.parcel] = true;
    if (report.model) {
        for_each_cell(*report.model, *report.from, report.to, [&](const Cell& cell) {
            if (!is_sent[cell.parcel]) return;
            const TensorClass& tensors = report.model->classes[cell.tensor_class];
            parts[cell.parcel].push_back({tensors.name, cell.layers, tensors.experts > 0 ? cell.experts : Interval{},
                                          cell.box, cell.begin, cell.begin + cell.bytes});
        });
        return parts;
    }
    for (const PieceCell& cell : cells_of(*report.checkpoint, report.change.parcels)) {
        if (!is_sent[cell.parcel]) continue;
        const auto size =
            static_cast<std::uint64_t>(volume(cell.box)) * report.change.parcels.parcels[cell.parcel].element;
        parts[cell.parcel].push_back(
            {report.change.parcels.tensors[cell.tensor], {}, {}, cell.box, cell.begin, cell.begin + size});
    }
    return parts;
}

// Calls `visit(part, begin, end)` for each part of which `transfer` sends bytes; `begin` and `end` are offsets in the
// part.
template <class Visit>
void for_each_sent(const Transfer& transfer, const std::vector<Part>& parts, Visit visit) {
    for (const Part& part : parts) {
        const std::uint64_t begin = std::max(part.begin, transfer.begin);
        const std::uint64_t end = std::min(part.end, transfer.end);
        if (begin < end) visit(part, begin - part.begin, end - part.begin);
    }
}

// The ranks that have the bytes at the two ends of a transfer.
class Ends {
public:
    explicit Ends(const PlanReport& report) : report_{report}, new_hosts_(report.change.placement.devices.size()) {
        for (const Block& block : report.change.placement.blocks)
            std::fill(new_hosts_.begin() + block.begin, new_hosts_.begin() + block.end, block.host);
    }

    // The rank that sends; none: storage, or the store of a host.
    std::optional<std::int32_t> sender(const Transfer& transfer) const {
        if (transfer.from == from_storage) return std::nullopt;
        const bool in_store = !transfer.forwards && report_.change.old_ranks[transfer.from_rank].device < 0;
        return in_store ? std::nullopt : std::optional{transfer.from_rank};
    }
    // Ranks on the sending host: old ranks that hold the bytes or, if it forwards them, new ranks that need them; none:
    // storage, or the store of a host.
    std::vector<std::int32_t> from(const Transfer& transfer) const {
        if (transfer.from == from_storage) return {};
        if (transfer.forwards) return needers(transfer, transfer.from);
        std::vector<std::int32_t> ranks;
        for (std::int32_t rank : report_.change.parcels.holders[parcel(transfer).holders]) {
            const RankLocation& location = report_.change.old_ranks[rank];
            if (static_cast<std::uint32_t>(location.host) == transfer.from && location.device >= 0)
                ranks.push_back(rank);
        }
        return ranks;
    }
    // New ranks on the receiving host that need the bytes.
    std::vector<std::int32_t> to(const Transfer& transfer) const { return needers(transfer, transfer.to); }

private:
    const Parcel& parcel(const Transfer& transfer) const { return report_.change.parcels.parcels[transfer.parcel]; }
    std::vector<std::int32_t> needers(const Transfer& transfer, std::uint32_t host) const {
        std::vector<std::int32_t> ranks;
        for (std::int32_t rank : report_.change.parcels.needers[parcel(transfer).needers]) {
            if (new_hosts_[rank] == host) ranks.push_back(rank);
        }
        return ranks;
    }

    const PlanReport& report_;
    std::vector<std::uint32_t> new_hosts_;
};

// "0-3,8" for ascending numbers.
std::string ranges(std::span<const int> numbers) {
    std::string text;
    for (std::size_t first = 0; first < numbers.size();) {
        std::size_t last = first;
        while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
        if (!text.empty()) text += ',';
        text += first == last ? fmt::format("{}", numbers[first]) : fmt::format("{}-{}", numbers[first], numbers[last]);
        first = last + 1;
    }
    return text;
}

// " ranks 0-3,8", or nothing.
std::string spoken(const std::vector<std::int32_t>& ranks) {
    if (ranks.empty()) return "";
    return fmt::format(" {} {}", ranks.size() == 1 ? "rank" : "ranks", ranges(ranks));
}

std::string spoken(std::optional<std::int32_t> rank) { return rank ? fmt::format(" rank {}", *rank) : ""; }

// " rank 0, then ranks 1-3": the first one receives, and the others copy from it.
std::string spoken_receivers(const Transfer& transfer, std::vector<std::int32_t> ranks) {
    std::erase(ranks, transfer.to_rank);
    return fmt::format(" rank {}{}{}", transfer.to_rank, ranks.empty() ? "" : ", then", spoken(ranks));
}

std::string spoken(const Part& part) {
    std::string text = fmt::format("{} {}", printable(part.tensor), to_string(part.box));
    if (!part.layers.empty()) text += fmt::format(" layers {}", ranges(part.layers));
    if (part.experts.size() > 0) text += fmt::format(" experts {}-{}", part.experts.begin, part.experts.end - 1);
    return text;
}

std::string name_of(const PlanReport& report, std::uint32_t host) {
    return host == from_storage ? "storage" : report.change.hosts[host].name;
}

Role role_of(const PlanReport& report, const Transfer& transfer) {
    return report.change.parcels.roles[report.change.parcels.parcels[transfer.parcel].role];
}

void list_transfers(const PlanReport& report, Output& out) {
    const std::vector<std::vector<Part>> parts = parts_of(report);
    const Ends ends{report};
    for (const Transfer& transfer : report.change.relocation.transfers) {
        const std::string way =
            fmt::format("{}{} -> {}{}", name_of(report, transfer.from), spoken(ends.sender(transfer)),
                        name_of(report, transfer.to), spoken_receivers(transfer, ends.to(transfer)));
        for_each_sent(transfer, parts[transfer.parcel], [&](const Part& part, std::uint64_t begin, std::uint64_t end) {
            out.data("{} {} {} bytes {}-{} {}\n", transfer.round, role_of(report, transfer), spoken(part), begin, end,
                     way);
        });
    }
}

Json rank_or_null(std::optional<std::int32_t> rank) { return rank ? Json(*rank) : Json(nullptr); }

Json transfers_json(const PlanReport& report) {
    const std::vector<std::vector<Part>> parts = parts_of(report);
    const Ends ends{report};
    Json list = Json::array();
    for (const Transfer& transfer : report.change.relocation.transfers) {
        Json sent = Json::array();
        for_each_sent(transfer, parts[transfer.parcel], [&](const Part& part, std::uint64_t begin, std::uint64_t end) {
            Json one{{"tensor", part.tensor}, {"box", to_json(part.box)}, {"begin", begin}, {"end", end}};
            if (!part.layers.empty()) one["layers"] = part.layers;
            if (part.experts.size() > 0) one["experts"] = {part.experts.begin, part.experts.end};
            sent.push_back(std::move(one));
        });
        list.push_back({{"round", transfer.round},
                        {"role", name(role_of(report, transfer))},
                        {"from", transfer.from == from_storage ? Json(nullptr) : Json(transfer.from)},
                        {"from_rank", rank_or_null(ends.sender(transfer))},
                        {"from_ranks", ends.from(transfer)},
                        {"to", transfer.to},
                        {"to_rank", transfer.to_rank},
                        {"to_ranks", ends.to(transfer)},
                        {"forwards", transfer.forwards},
                        {"parcel", transfer.parcel},
                        {"begin", transfer.begin},
                        {"end", transfer.end},
                        {"parts", std::move(sent)}});
    }
    return list;
}

// Calls `visit(name, box, from, source file, to, target file)` for each move of a checkpoint.
template <class Visit>
void for_each_move(const CheckpointChange& change, Visit visit) {
    const formats::Conversion& conversion = change.conversion;
    for (const Move& move : change.moves) {
        const Piece& from = conversion.source_pieces[move.source];
        const Piece& to = conversion.target_pieces[move.target];
        visit(conversion.target_tensors[to.tensor].name, move.box, from,
              change.opened.source.checkpoint.catalogue.files[from.file].path.string(), to,
              conversion.draft.files[to.file].path.string());
    }
}

void list_boxes(const CheckpointChange& change, Output& out) {
    const auto rank = [](const Piece& piece) { return piece.rank < 0 ? "" : fmt::format("rank {} ", piece.rank); };
    for_each_move(change, [&](const std::string& name, const Box& box, const Piece& from, const std::string& source,
                              const Piece& to, const std::string& target) {
        out.data("{} {} {}{} -> {}{}\n", printable(name), to_string(box), rank(from), printable(source), rank(to),
                 printable(target));
    });
}

Json moves_json(const CheckpointChange& change) {
    const auto end = [](const Piece& piece, const std::string& file) {
        return Json{{"rank", piece.rank < 0 ? Json(nullptr) : Json(piece.rank)}, {"file", file}};
    };
    Json list = Json::array();
    for_each_move(change, [&](const std::string& name, const Box& box, const Piece& from, const std::string& source,
                              const Piece& to, const std::string& target) {
        list.push_back(
            {{"tensor", name}, {"box", to_json(box)}, {"source", end(from, source)}, {"target", end(to, target)}});
    });
    return list;
}

}  // namespace

std::vector<PieceCell> cells_of(const CheckpointChange& change, const Parcels& parcels) {
    const formats::Conversion& conversion = change.conversion;
    return tpx::cells_of({conversion.source_tensors, change.held}, {conversion.target_tensors, change.needed},
                         change.roles_of_tensors, change.roles, parcels.old_ranks, parcels.new_ranks);
}

nlohmann::ordered_json list_json(const PlanReport& report) {
    Json json = Json::object();
    if (report.checkpoint) json["moves"] = moves_json(*report.checkpoint);
    json["hosts"] = Json::array();
    for (const Host& host : report.change.hosts) json["hosts"].push_back(host.name);
    json["transfers"] = transfers_json(report);
    return json;
}

void list_moves(const PlanReport& report, Output& out) {
    if (out.json()) return out.object("tpx.plan-list/1", list_json(report));
    report.checkpoint ? list_boxes(*report.checkpoint, out) : list_transfers(report, out);
}

}  // namespace tpx::cli
