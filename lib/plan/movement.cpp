// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/movement.hpp"

#include "lib/core/error.hpp"
#include "lib/plan/box_set.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace tpx {
namespace {

// A piece in the terms of this count.
struct Held {
    std::uint32_t tensor;
    std::uint32_t host;
    std::int32_t rank;
    std::uint32_t piece;

    friend auto operator<=>(const Held&, const Held&) = default;
};

std::vector<Held> by_holder(const Side& side, std::span<const std::uint32_t> host_of, std::size_t hosts) {
    std::vector<Held> held;
    held.reserve(side.pieces.size());
    for (std::uint32_t i = 0; i < side.pieces.size(); ++i) {
        const Piece& piece = side.pieces[i];
        if (piece.rank < 0 || piece.rank >= std::ssize(host_of) || host_of[piece.rank] >= hosts)
            throw Error{Exit::usage,
                        "tensor '{}': rank {} has no host ({} ranks, {} hosts)",
                        side.tensors[piece.tensor].name,
                        piece.rank,
                        host_of.size(),
                        hosts};
        if (!empty(piece.box)) held.push_back({piece.tensor, host_of[piece.rank], piece.rank, i});
    }
    if (!std::is_sorted(held.begin(), held.end())) std::sort(held.begin(), held.end());
    return held;
}

using HeldSpan = std::span<const Held>;

// Takes the leading entries with the same `key` as the first off `rest`.
template <class Key>
HeldSpan take(HeldSpan& rest, Key key) {
    const auto end = std::find_if(rest.begin(), rest.end(), [&](const Held& h) { return key(h) != key(rest.front()); });
    const HeldSpan taken = rest.first(static_cast<std::size_t>(end - rest.begin()));
    rest = rest.subspan(taken.size());
    return taken;
}

// The entries of `held` whose `key` is `value`; they are sorted by it.
template <class Key, class Value>
HeldSpan where(HeldSpan held, Key key, Value value) {
    const auto found = std::ranges::equal_range(held, value, {}, key);
    return {found.begin(), found.end()};
}

// Boxes that leave for host `to`, and the hosts that could send them.
struct Candidate {
    std::uint64_t bytes;
    std::uint32_t hosts;  // a set of hosts, by number
    Crossing crossing;
};

class Count {
public:
    explicit Count(const Change& change)
        : change_{change},
          source_{by_holder(change.source, change.source_hosts, change.hosts.size())},
          target_{by_holder(change.target, change.target_hosts, change.hosts.size())} {
        const auto last = std::max_element(change.roles.begin(), change.roles.end());
        result_.roles.resize(last == change.roles.end() ? 1 : *last + 1);
        result_.hosts.resize(change.hosts.size());
    }

    Movement run() {
        HeldSpan sources = source_;
        for (HeldSpan targets = target_; !targets.empty();) {
            const HeldSpan wanted = take(targets, [](const Held& h) { return h.tensor; });
            tensor(wanted, where(sources, &Held::tensor, wanted.front().tensor));
        }
        choose_senders();
        for (const Bytes& role : result_.roles) result_.total += role;
        return std::move(result_);
    }

private:
    void tensor(HeldSpan targets, HeldSpan sources);
    void host(HeldSpan targets, HeldSpan sources, const BoxIndex& everywhere);
    void cross(std::uint32_t tensor, std::uint32_t to, const Box& box, const BoxIndex& everywhere);
    std::uint32_t set_of_hosts(const Box& box, const BoxIndex& everywhere);
    void choose_senders();

    std::vector<Box> boxes(const Side& side, HeldSpan held) const {
        std::vector<Box> list;
        list.reserve(held.size());
        for (const Held& h : held) list.push_back(side.pieces[h.piece].box);
        return list;
    }
    std::uint64_t bytes(std::uint32_t tensor, Index elements) const {
        return static_cast<std::uint64_t>(elements) * itemsize(change_.source.tensors[tensor].dtype);
    }
    Bytes& role(std::uint32_t tensor) { return result_.roles[change_.roles.empty() ? 0 : change_.roles[tensor]]; }

    const Change& change_;
    std::vector<Held> source_;
    std::vector<Held> target_;
    std::vector<std::vector<std::uint32_t>> holders_;  // the hosts of each distinct source box of the current tensor
    std::map<std::vector<std::uint32_t>, std::uint32_t> host_sets_;
    std::vector<Candidate> candidates_;
    std::vector<std::uint32_t> near_;
    std::vector<Box> parts_, scratch_;
    Movement result_;
};

void Count::tensor(HeldSpan targets, HeldSpan sources) {
    std::vector<Held> by_box{sources.begin(), sources.end()};
    const auto box = [&](const Held& h) -> const Box& { return change_.source.pieces[h.piece].box; };
    std::ranges::stable_sort(by_box, {}, box);

    std::vector<Box> distinct;
    holders_.clear();
    for (const Held& h : by_box) {
        if (distinct.empty() || distinct.back() != box(h)) {
            distinct.push_back(box(h));
            holders_.emplace_back();
        }
        if (holders_.back().empty() || holders_.back().back() != h.host) holders_.back().push_back(h.host);
    }
    const BoxIndex everywhere{std::move(distinct)};
    while (!targets.empty()) {
        const HeldSpan wanted = take(targets, [](const Held& h) { return h.host; });
        host(wanted, where(sources, &Held::host, wanted.front().host), everywhere);
    }
}

// `targets`: what one host needs of one tensor; `sources`: what it holds.
void Count::host(HeldSpan targets, HeldSpan sources, const BoxIndex& everywhere) {
    const auto [tensor, to, rank, piece] = targets.front();
    const BoxIndex resident{disjoint(boxes(change_.source, sources))};
    const std::vector<Box> needed = disjoint(boxes(change_.target, targets));
    const std::vector<Box> missing = difference(needed, resident);
    const std::uint64_t crossing = bytes(tensor, volume(missing));

    Bytes sum;
    for (HeldSpan rest = targets; !rest.empty();) {
        const HeldSpan own = take(rest, [](const Held& h) { return h.rank; });
        const BoxIndex had{boxes(change_.source, where(sources, &Held::rank, own.front().rank))};
        const std::vector<Box> wanted = disjoint(boxes(change_.target, own));
        const std::uint64_t all = bytes(tensor, volume(wanted));
        sum.needed += all;
        sum.kept += all - bytes(tensor, volume(difference(wanted, had)));
    }
    sum.other_host = crossing;
    sum.same_host = sum.needed - sum.kept - crossing;
    role(tensor) += sum;
    result_.hosts[to].memory += sum.same_host;

    std::vector<Box> with_needed = boxes(change_.target, targets);
    with_needed.insert(with_needed.end(), resident.boxes().begin(), resident.boxes().end());
    result_.bound += bytes(tensor, volume(disjoint(std::move(with_needed))) - volume(resident.boxes()));

    for (const Box& box : missing) cross(tensor, to, box, everywhere);
}

// Cuts `box` into parts that some hosts hold whole, and notes them with these hosts.
void Count::cross(std::uint32_t tensor, std::uint32_t to, const Box& box, const BoxIndex& everywhere) {
    std::vector<std::uint32_t> groups;
    everywhere.overlapping(box, groups);
    Index found = 0;
    for (std::uint32_t group : groups) {
        const Box shared = intersect(box, everywhere.boxes()[group]);
        everywhere.overlapping(shared, near_);
        parts_.assign(1, shared);
        for (std::uint32_t earlier : near_) {
            if (earlier < group) carve(parts_, everywhere.boxes()[earlier], scratch_);
        }
        for (const Box& part : parts_)
            candidates_.push_back({bytes(tensor, volume(part)), set_of_hosts(part, everywhere), {tensor, 0, to, part}});
        found += volume(parts_);
    }
    if (found == volume(box)) return;
    const std::vector<Box> missing = difference(std::span{&box, 1}, everywhere);
    throw failure("tensor '{}': nothing holds {} ({} of {} elements)", change_.source.tensors[tensor].name,
                  to_string(missing.front()), volume(missing), volume(box));
}

// The hosts that hold all of `box`, which lies among the boxes of `near_`.
std::uint32_t Count::set_of_hosts(const Box& box, const BoxIndex& everywhere) {
    std::vector<std::uint32_t> hosts;
    for (std::uint32_t group : near_) {
        if (!contains(everywhere.boxes()[group], box)) continue;
        hosts.insert(hosts.end(), holders_[group].begin(), holders_[group].end());
    }
    std::sort(hosts.begin(), hosts.end());
    hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
    return host_sets_.try_emplace(std::move(hosts), static_cast<std::uint32_t>(host_sets_.size())).first->second;
}

// Largest first to the sender that would be done first: close to the least busiest NIC, and the same every time.
void Count::choose_senders() {
    std::vector<const std::vector<std::uint32_t>*> sets(host_sets_.size());
    for (const auto& [hosts, number] : host_sets_) sets[number] = &hosts;
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.bytes > b.bytes; });
    for (Candidate& candidate : candidates_) {
        const auto done = [&](std::uint32_t host) {
            const auto load = static_cast<double>(result_.hosts[host].nic_out + candidate.bytes);
            return load / change_.hosts[host].nic.value_or(default_rates.nic);
        };
        candidate.crossing.from = *std::ranges::min_element(*sets[candidate.hosts], {}, done);
        Load& from = result_.hosts[candidate.crossing.from];
        Load& to = result_.hosts[candidate.crossing.to];
        from.nic_out += candidate.bytes;
        from.memory += candidate.bytes;
        to.nic_in += candidate.bytes;
        to.memory += candidate.bytes;
        result_.crossings.push_back(candidate.crossing);
    }
    std::ranges::sort(result_.crossings, {}, [](const Crossing& c) { return std::tuple{c.tensor, c.to, c.box}; });
}

}  // namespace

Movement movement(const Change& change) { return Count{change}.run(); }

}  // namespace tpx
