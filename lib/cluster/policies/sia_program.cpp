// SPDX-License-Identifier: Apache-2.0
// Lagrangian relaxation: with a price for each GPU, jobs choose independently. The sum of their least costs, minus the
// price of all GPUs, is a lower bound of the least sum; the bound is a concave function of the price. Any other choice
// of a job has a loss. Filling the GPUs that the best choices leave free gives an upper bound. If it is higher than the
// lower bound, dynamic programming over the number of added GPUs finds the best combination of the few choices that
// lose less than the gap.
#include "lib/cluster/policies/sia_program.hpp"

#include <algorithm>
#include <deque>
#include <limits>

namespace tpx {
namespace {

constexpr SiaCost unreachable = std::numeric_limits<SiaCost>::max() / 4;

// Lowers entries of `sum` to the least losses after at most `count` moves from `row`, each of which adds `step` GPUs
// and loses `each`. Visits every `step`-th entry from `first` on, backwards if `step` is negative. The least loss at an
// entry starts from one of the `count` + 1 entries visited last, including this one.
void add_repeated(const std::vector<SiaCost>& row, std::ptrdiff_t first, std::ptrdiff_t step, SiaCost each, int count,
                  std::vector<SiaCost>& sum) {
    const auto size = static_cast<std::ptrdiff_t>(row.size());
    std::deque<std::pair<std::int64_t, SiaCost>> least;  // positions, and losses minus `each` per position
    std::int64_t position = 0;
    for (std::ptrdiff_t at = first; at >= 0 && at < size; at += step, ++position) {
        const auto index = static_cast<std::size_t>(at);
        if (row[index] < unreachable) {
            const SiaCost here = row[index] - position * each;
            while (!least.empty() && least.back().second > here) least.pop_back();
            least.emplace_back(position, here);
        }
        while (!least.empty() && least.front().first < position - count) least.pop_front();
        if (!least.empty()) sum[index] = std::min(sum[index], least.front().second + position * each);
    }
}

}  // namespace

SiaCost SiaProgram::Row::at(std::int64_t gpus) const {
    const std::int64_t index = gpus - from;
    return index < 0 || index >= static_cast<std::int64_t>(loss.size()) ? unreachable
                                                                        : loss[static_cast<std::size_t>(index)];
}

SiaProgram::Bound SiaProgram::evaluate(SiaCost price) const {
    Bound bound;
    for (const SiaGroup& group : groups_) {
        SiaCost least = 0;
        const SiaChoice *fewest = nullptr, *most = nullptr;
        for (const SiaChoice& choice : group.choices) {
            const SiaCost sum = choice.cost + price * choice.gpus;
            if (!fewest || sum < least) {
                fewest = most = &choice;
                least = sum;
            } else if (sum == least) {
                most = &choice;
            }
        }
        bound.cost += fewest->cost * group.count;
        bound.least += std::int64_t{fewest->gpus} * group.count;
        bound.most += std::int64_t{most->gpus} * group.count;
    }
    return bound;
}

// The lowest price at which the jobs choose no more GPUs than there are, up to the rounding of prices, found where
// tangents of the lower bound intersect.
SiaCost SiaProgram::find_price() const {
    const auto is_best = [&](const Bound& bound) { return bound.least <= gpus_ && gpus_ <= bound.most; };
    const Bound warm = evaluate(price_);
    if (is_best(warm)) return price_;
    SiaCost low_price = 0, high_price = 0;
    Bound low = evaluate(0), high;  // at an infinite price, no job has GPUs
    if (low.least <= gpus_) return 0;
    bool is_high_known = false;
    if (warm.least > gpus_) {
        low = warm, low_price = price_;
    } else {
        high = warm, high_price = price_, is_high_known = true;
    }
    for (const SiaGroup& group : groups_)
        if (!is_high_known) high.cost += group.choices[0].cost * group.count;
    while (true) {
        SiaCost price = (high.cost - low.cost) / (low.least - high.least);
        if (price <= low_price) price = low_price + 1;
        if (is_high_known && price >= high_price) return high_price;
        const Bound here = evaluate(price);
        if (is_best(here)) return price;
        if (here.least > gpus_) {
            low = here, low_price = price;
        } else {
            high = here, high_price = price, is_high_known = true;
        }
    }
}

void SiaProgram::choose_best(SiaCost price) {
    best_.clear();
    shares_.resize(groups_.size());
    for (std::size_t i = 0; i < groups_.size(); ++i) {
        const SiaGroup& group = groups_[i];
        int best = 0;
        const auto sum = [&](int choice) {
            const SiaChoice& is = group.choices[static_cast<std::size_t>(choice)];
            return is.cost + price * is.gpus;
        };
        for (int choice = 1; choice < static_cast<int>(group.choices.size()); ++choice)
            if (sum(choice) < sum(best)) best = choice;
        best_.push_back(best);
        shares_[i].assign(1, {best, group.count});
    }
}

// The moves that lose less than `limit` each.
std::vector<SiaProgram::Move> SiaProgram::moves_within(SiaCost limit) const {
    std::vector<Move> moves;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
        const SiaGroup& group = groups_[i];
        const SiaChoice& best = group.choices[static_cast<std::size_t>(best_[i])];
        for (int choice = 0; choice < static_cast<int>(group.choices.size()); ++choice) {
            const SiaChoice& is = group.choices[static_cast<std::size_t>(choice)];
            const int gpus = is.gpus - best.gpus;
            const SiaCost loss = is.cost - best.cost + price_ * gpus;
            if (choice != best_[i] && loss < limit) moves.push_back({i, choice, gpus, loss, group.count});
        }
    }
    return moves;
}

void SiaProgram::apply(const Move& move, int count) {
    std::vector<SiaShare>& shares = shares_[move.group];
    shares.front().count -= count;  // the first share is that of the choice of least cost
    shares.push_back({move.choice, count});
}

// Gives `left` free GPUs to jobs whose costs they reduce, first to those that lose the least per GPU. Returns an upper
// bound of the difference between the sum of costs and the least sum.
SiaCost SiaProgram::fill(int left) {
    std::vector<Move> moves = moves_within(price_ * left + 1);
    std::erase_if(moves, [&](const Move& move) { return move.gpus <= 0 || move.loss >= price_ * move.gpus; });
    std::ranges::stable_sort(moves, {}, [](const Move& move) { return static_cast<double>(move.loss) / move.gpus; });
    SiaCost loss = 0;
    for (const Move& move : moves) {
        const int count = std::min(shares_[move.group].front().count, left / move.gpus);
        if (count == 0) continue;
        apply(move, count);
        loss += move.loss * count;
        left -= move.gpus * count;
    }
    return loss + price_ * left;
}

std::vector<SiaProgram::Stage> SiaProgram::stages_within(SiaCost limit) const {
    std::vector<Stage> stages;
    const auto most_of = [&](const Move& move) {
        return move.loss == 0 ? move.count : static_cast<int>(std::min<SiaCost>(move.count, (limit - 1) / move.loss));
    };
    const std::vector<Move> moves = moves_within(limit);
    for (std::size_t i = 0; i < moves.size();) {
        std::size_t end = i;
        std::int64_t all = 0;
        while (end < moves.size() && moves[end].group == moves[i].group) all += most_of(moves[end++]);
        const int count = moves[i].count;
        if (all <= count && count > 1) {  // no two of the moves can need the same job
            for (; i < end; ++i) stages.push_back({{moves[i]}, most_of(moves[i])});
        } else if (end - i == 1) {
            stages.push_back({{moves[i]}, most_of(moves[i])});
            ++i;
        } else {
            const Stage one{
                {moves.begin() + static_cast<std::ptrdiff_t>(i), moves.begin() + static_cast<std::ptrdiff_t>(end)}, 1};
            stages.insert(stages.end(), static_cast<std::size_t>(std::min<std::int64_t>(count, all)), one);
            i = end;
        }
    }
    for (Stage& stage : stages) {
        for (const Move& move : stage.moves) {
            stage.fewest = std::min(stage.fewest, std::int64_t{move.gpus} * stage.count);
            stage.most = std::max(stage.most, std::int64_t{move.gpus} * stage.count);
        }
    }
    std::ranges::stable_sort(stages, {}, [](const Stage& stage) { return stage.most - stage.fewest; });
    return stages;
}

// The rows before and after each stage, limited to the numbers of GPUs from which the later stages can reach `least` to
// `left` GPUs.
std::vector<SiaProgram::Row> SiaProgram::rows_of(const std::vector<Stage>& stages, SiaCost limit, std::int64_t least,
                                                 int left) const {
    std::int64_t later_fewest = 0, later_most = 0, fewest = 0, most = 0;
    for (const Stage& stage : stages) later_fewest += stage.fewest, later_most += stage.most;
    std::vector<Row> rows{{0, {0}}};
    for (const Stage& stage : stages) {
        later_fewest -= stage.fewest, later_most -= stage.most;
        fewest += stage.fewest, most += stage.most;
        const std::int64_t from = std::max(fewest, least - later_most), to = std::min(most, left - later_fewest);
        // `before` and `after` have room for the entries from which the stage starts and for those that it reaches.
        const std::int64_t begin = std::min(from, rows.back().from);
        const std::int64_t end =
            std::max(to + 1, rows.back().from + static_cast<std::int64_t>(rows.back().loss.size()));
        std::vector<SiaCost> before(static_cast<std::size_t>(std::max<std::int64_t>(0, end - begin)), unreachable);
        std::ranges::copy(rows.back().loss, before.begin() + (rows.back().from - begin));
        std::vector<SiaCost> after = before;
        const auto size = static_cast<std::ptrdiff_t>(before.size());
        for (const Move& move : stage.moves) {
            const std::ptrdiff_t step = move.gpus, stride = std::abs(step);
            for (std::ptrdiff_t first = 0; first < std::min(stride, size); ++first)
                add_repeated(before, step > 0 ? first : size - 1 - first, step, move.loss, stage.count, after);
        }
        Row row{from, {}};
        for (std::int64_t gpus = from; gpus <= to; ++gpus) {
            const SiaCost loss = after[static_cast<std::size_t>(gpus - begin)];
            row.loss.push_back(loss < limit ? loss : unreachable);
        }
        rows.push_back(std::move(row));
    }
    return rows;
}

// Makes the moves of `stages` that add `gpus` GPUs and lose what the last row says.
void SiaProgram::apply(const std::vector<Stage>& stages, const std::vector<Row>& rows, std::int64_t gpus) {
    for (std::size_t i = stages.size(); i-- > 0;) {
        const SiaCost loss = rows[i + 1].at(gpus);
        const auto move_found = [&] {
            for (const Move& move : stages[i].moves) {
                for (int count = 1; count <= stages[i].count; ++count) {
                    const SiaCost before = rows[i].at(gpus - std::int64_t{move.gpus} * count);
                    if (before >= unreachable || before + move.loss * count != loss) continue;
                    apply(move, count);
                    gpus -= std::int64_t{move.gpus} * count;
                    return;
                }
            }
        };
        if (rows[i].at(gpus) != loss) move_found();
    }
}

// Looks for choices that lose less than `gap`, including the price of free GPUs.
void SiaProgram::improve(SiaCost gap, int left) {
    const std::vector<Stage> stages = stages_within(gap);
    const std::int64_t least = left - (gap - 1) / price_;
    const std::vector<Row> rows = rows_of(stages, gap, least, left);
    SiaCost best = gap;
    std::int64_t found = 0;
    for (std::int64_t gpus = least; gpus <= left; ++gpus) {
        const SiaCost loss = rows.back().at(gpus);
        if (loss < unreachable && loss + price_ * (left - gpus) < best)
            best = loss + price_ * (left - gpus), found = gpus;
    }
    if (best == gap) return;  // fill() has found the best choices
    for (std::size_t i = 0; i < groups_.size(); ++i) shares_[i].assign(1, {best_[i], groups_[i].count});
    apply(stages, rows, found);
}

const std::vector<std::vector<SiaShare>>& SiaProgram::solve(std::span<const SiaGroup> groups, int gpus) {
    groups_ = groups;
    gpus_ = gpus;
    price_ = find_price();
    choose_best(price_);
    const int left = static_cast<int>(gpus - evaluate(price_).least);
    if (price_ == 0) return shares_;
    if (const SiaCost gap = fill(left); gap > 0) improve(gap, left);
    return shares_;
}

}  // namespace tpx
