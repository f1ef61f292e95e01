// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/spread_senders.hpp"

#include "lib/change/senders.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

namespace tpx::cli {
namespace {

/// The pieces that contain the same elements as each piece.
class Replicas {
public:
    explicit Replicas(std::span<const Piece> pieces) : order_(pieces.size()), first_(pieces.size()) {
        const auto key = [&](std::uint32_t piece) { return std::tie(pieces[piece].tensor, pieces[piece].box); };
        std::iota(order_.begin(), order_.end(), 0u);
        std::ranges::stable_sort(order_, {}, key);
        for (std::uint32_t k = 0; k < order_.size(); ++k)
            first_[order_[k]] = k > 0 && key(order_[k]) == key(order_[k - 1]) ? first_[order_[k - 1]] : k;
    }

    /// All pieces with the same tensor and box as `piece`, itself included, in ascending order.
    std::span<const std::uint32_t> of(std::uint32_t piece) const {
        const std::uint32_t first = first_[piece];
        std::uint32_t end = first;
        while (end < order_.size() && first_[order_[end]] == first) ++end;
        return std::span{order_}.subspan(first, end - first);
    }

private:
    std::vector<std::uint32_t> order_;
    std::vector<std::uint32_t> first_;  // where the replicas of a piece begin in `order_`
};

/// A carried move, and who sends it.
struct SentMove {
    Move move;
    Endpoint sender;
};

class SenderSpread {
public:
    SenderSpread(const HostsPlan& plan, const EndpointDistance& distance)
        : plan_{plan}, distance_{distance}, replicas_{plan.hold.job.conversion.source_pieces} {
        sets_.add({});  // set 0 is the empty set: that of the readers and of the relays of each demand
    }

    void add(const Move& move) {
        std::map<int, std::uint32_t> found = nearest_senders(move);
        std::vector<std::int32_t> hosts;
        for (const auto& [host, piece] : found) hosts.push_back(host);
        demands_.push_back({.holders = sets_.add(hosts), .bytes = bytes_of(move)});
        moves_.push_back(move);
        pieces_.push_back(std::move(found));
    }

    std::vector<SentMove> run(std::span<const double> nics) const {
        if (demands_.empty()) return {};
        std::vector<SendRate> rates;
        for (std::size_t host = 0; host < plan_.ranks.size(); ++host)
            rates.push_back({.nic = nics.empty() ? 1 : nics[host]});
        const ChosenSenders chosen = choose_senders(sets_, demands_, rates);
        std::vector<SentMove> sent;
        for (std::size_t k = 0; k < moves_.size(); ++k) split(k, chosen.shares[k], sent);
        return sent;
    }

private:
    const formats::Conversion& conversion() const { return plan_.hold.job.conversion; }

    std::uint64_t bytes_of(const Move& move) const {
        const Piece& piece = conversion().source_pieces[move.source];
        return static_cast<std::uint64_t>(volume(move.box) * itemsize(conversion().source_tensors[piece.tensor].dtype));
    }

    /// The hosts that are nearest to the target of a move, and the piece that each of them sends.
    std::map<int, std::uint32_t> nearest_senders(const Move& move) const {
        const Endpoint& to = plan_.target_files[conversion().target_pieces[move.target].file];
        std::map<int, std::uint32_t> found;
        int least = 0;
        for (const std::uint32_t piece : replicas_.of(move.source)) {
            const std::uint32_t file = conversion().source_pieces[piece].file;
            if (plan_.is_computed(file) != plan_.is_computed(conversion().source_pieces[move.source].file)) continue;
            for (const int host : plan_.holders[file]) {
                const int distance = distance_(plan_.sender_endpoint(host, file), to);
                if (!found.empty() && distance > least) continue;
                if (!found.empty() && distance < least) found.clear();
                least = distance;
                found.emplace(host, piece);
            }
        }
        return found;
    }

    /// Appends the parts of move number `k`, one for each share of it.
    void split(std::size_t k, std::span<const SenderShare> shares, std::vector<SentMove>& sent) const {
        const Box& box = moves_[k].box;
        if (box.size() == 0) shares = shares.first(1);
        int axis = 0;
        for (int other = 1; other < box.size(); ++other)
            if (box[other].size() > box[axis].size()) axis = other;
        std::uint64_t bytes = 0;
        Index begin = 0;
        for (const SenderShare& share : shares) {
            bytes += share.bytes;
            Move part = moves_[k];
            const auto host = static_cast<int>(share.host);
            part.source = pieces_[k].at(host);
            if (shares.size() > 1) {
                const double length = static_cast<double>(box[axis].size());
                const auto end = static_cast<Index>(
                    std::llround(length * static_cast<double>(bytes) / static_cast<double>(demands_[k].bytes)));
                part.box[axis] = {box[axis].begin + begin, box[axis].begin + end};
                begin = end;
            }
            if (empty(part.box)) continue;
            sent.push_back({part, plan_.sender_endpoint(host, conversion().source_pieces[part.source].file)});
        }
    }

    const HostsPlan& plan_;
    const EndpointDistance& distance_;
    Replicas replicas_;
    RankSets sets_;  // of hosts
    std::vector<Demand> demands_;
    std::vector<Move> moves_;                           // by demand
    std::vector<std::map<int, std::uint32_t>> pieces_;  // by demand: what each host can send
};

}  // namespace

void spread_senders(HostsPlan& plan, const EndpointDistance& distance, std::span<const double> nics) {
    SenderSpread spread{plan, distance};
    Moves moves;
    for (const Move& move : plan.moves)
        if (plan.is_carried(move))
            spread.add(move);
        else
            moves.push_back(move);
    std::vector<SentMove> sent = spread.run(nics);
    const auto place = [](const Move& move) { return std::tie(move.target, move.box); };
    std::ranges::stable_sort(sent, {}, [&](const SentMove& one) { return place(one.move); });
    plan.carried.clear();
    plan.senders.clear();
    for (const SentMove& one : sent) {
        plan.carried.push_back(one.move);
        plan.senders.push_back(one.sender);
    }
    moves.insert(moves.end(), plan.carried.begin(), plan.carried.end());
    std::ranges::stable_sort(moves, {}, place);
    plan.moves = std::move(moves);
}

}  // namespace tpx::cli
