// SPDX-License-Identifier: Apache-2.0
#include "lib/model/hetero.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>

namespace tpx {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

// The shares of one kind, by how many examples its GPUs take together; the first is "none of them".
struct Option {
    int amount = 0;
    WorkShare share;
};

// Costs that add up along the kinds, as a sum or as a maximum.
enum class Cost { slowest, gpus };

double cost_of(const Option& option, Cost cost) {
    if (option.amount == 0) return 0;
    // Fewer GPUs first; among these larger virtual nodes, which never outweigh a GPU.
    return cost == Cost::slowest ? option.share.seconds : option.share.gpus + 1e-4 / option.share.virtual_node_batch;
}

double joined(double a, double b, Cost cost) { return cost == Cost::slowest ? std::max(a, b) : a + b; }

void check(std::span<const GpuProfile> profiles, std::int64_t batch, double communication) {
    if (batch < 1 || batch > (1 << 24)) throw Error{Exit::usage, "a batch of {} examples is not from 1 to 2^24", batch};
    if (!(communication >= 0) || !std::isfinite(communication))
        throw Error{Exit::usage, "communication takes {} s, which cannot be", communication};
    if (profiles.empty()) throw Error{Exit::usage, "there is no profile"};
    for (const GpuProfile& profile : profiles) {
        if (profile.points.empty() || profile.count < 0)
            throw Error{Exit::usage, "{}: a profile needs points and a number of GPUs", profile.name};
        for (const GpuProfile::Point& point : profile.points)
            if (point.batch < 1 || !(point.rate > 0) || !std::isfinite(point.rate))
                throw Error{Exit::usage, "{}: batch {} at {} examples/s cannot be", profile.name, point.batch,
                            point.rate};
    }
}

// What one GPU can take: a profiled size times a power of two, up to `most`.
std::set<int> local_batches(const GpuProfile& profile, int most) {
    std::set<int> all;
    for (const GpuProfile::Point& point : profile.points)
        for (int local = point.batch; local <= most; local *= 2) all.insert(local);
    return all;
}

// The fastest way for one GPU to take `local` examples; no GPUs if it has none.
WorkShare fastest(const GpuProfile& profile, std::size_t type, int local) {
    WorkShare best{type, 0, 0, 0, never};
    for (const GpuProfile::Point& point : profile.points) {
        if (local % point.batch != 0 || !std::has_single_bit(static_cast<unsigned>(local / point.batch))) continue;
        const double seconds = local / point.rate;
        if (seconds < best.seconds || (seconds == best.seconds && point.batch > best.virtual_node_batch))
            best = {type, 1, local / point.batch, point.batch, seconds};
    }
    return best;
}

// For each amount the best share with at most `limit` seconds: the fastest one without a limit, else the one that costs
// least.
std::vector<Option> options_of(const GpuProfile& profile, std::size_t type, int batch, Cost cost, double limit) {
    std::map<int, Option> best;
    best[0] = {};
    for (const int local : local_batches(profile, batch)) {
        WorkShare share = fastest(profile, type, local);
        if (share.gpus == 0 || share.seconds > limit) continue;
        for (share.gpus = 1; share.gpus <= profile.count && share.gpus <= batch / local; ++share.gpus) {
            const Option option{share.gpus * local, share};
            const auto [place, is_new] = best.try_emplace(option.amount, option);
            if (!is_new && cost_of(option, cost) < cost_of(place->second, cost)) place->second = option;
        }
    }
    std::vector<Option> options;
    for (const auto& [amount, option] : best) options.push_back(option);
    return options;
}

// The least cost of each amount that some kinds take together, and the options that make it.
class Table {
public:
    Table(int batch, Cost cost) : cost_{cost}, least_(static_cast<std::size_t>(batch) + 1, never) {
        least_[0] = 0;
        reached_.push_back(0);
    }

    // Lets one more kind take part; `options` must outlive the table.
    void add(const std::vector<Option>& options) {
        std::vector<double> next(least_.size(), never);
        std::vector<std::uint32_t> from(least_.size());
        std::vector<int> reached;
        for (const int before : reached_) {
            for (std::uint32_t i = 0; i < options.size(); ++i) {
                const std::size_t amount =
                    static_cast<std::size_t>(before) + static_cast<std::size_t>(options[i].amount);
                if (amount >= next.size()) break;  // options are sorted by amount
                const double total = joined(least_[before], cost_of(options[i], cost_), cost_);
                if (!(total < next[amount])) continue;
                if (next[amount] == never) reached.push_back(static_cast<int>(amount));
                next[amount] = total;
                from[amount] = i;
            }
        }
        least_ = std::move(next);
        reached_ = std::move(reached);
        steps_.push_back({&options, std::move(from)});
    }

    double least(int amount) const { return least_[amount]; }
    const std::vector<int>& reached() const { return reached_; }

    void collect(int amount, std::vector<WorkShare>& shares) const {
        for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
            const Option& option = (*step->options)[step->from[amount]];
            if (option.amount > 0) shares.push_back(option.share);
            amount -= option.amount;
        }
    }

private:
    struct Step {
        const std::vector<Option>* options;
        std::vector<std::uint32_t> from;
    };
    Cost cost_;
    std::vector<double> least_;
    std::vector<int> reached_;
    std::vector<Step> steps_;
};

// The shares of all `batch` examples with the least cost: the kinds in two halves, which meet in the middle.
double solve(std::span<const GpuProfile> profiles, int batch, Cost cost, double limit, std::vector<WorkShare>* shares) {
    std::vector<std::vector<Option>> options;
    for (std::size_t type = 0; type < profiles.size(); ++type)
        options.push_back(options_of(profiles[type], type, batch, cost, limit));
    Table one{batch, cost}, other{batch, cost};
    for (std::size_t type = 0; type < profiles.size(); ++type)
        (2 * type < profiles.size() ? one : other).add(options[type]);
    double least = never;
    int best = 0;
    for (const int amount : one.reached()) {
        const double total = joined(one.least(amount), other.least(batch - amount), cost);
        if (total < least) {
            least = total;
            best = amount;
        }
    }
    if (shares && least < never) {
        one.collect(best, *shares);
        other.collect(batch - best, *shares);
        std::ranges::sort(*shares, {}, &WorkShare::type);
    }
    return least;
}

// The seconds of the slowest share in the best assignment. Shares slower than a limit are left out, which makes most of
// the work vanish; the limit starts near the least that could be and grows until there is an assignment.
double least_slowest(std::span<const GpuProfile> profiles, int batch) {
    double together = 0, slowest_rate = never;
    for (const GpuProfile& profile : profiles) {
        const auto rates = std::ranges::minmax(profile.points, {}, &GpuProfile::Point::rate);
        together += profile.count * rates.max.rate;
        slowest_rate = std::min(slowest_rate, rates.min.rate);
    }
    for (double limit = 1.1 * batch / together;; limit *= 1.5) {
        const double least = solve(profiles, batch, Cost::slowest, limit, nullptr);
        if (least < never || !(limit <= batch / slowest_rate)) return least;
    }
}

HeteroAssignment finish(std::vector<WorkShare> shares, double communication) {
    HeteroAssignment assignment;
    assignment.shares = std::move(shares);
    for (const WorkShare& share : assignment.shares) {
        assignment.batch += share.gpus * share.local_batch();
        assignment.seconds = std::max(assignment.seconds, share.seconds);
    }
    if (assignment.gpus() > 1) assignment.seconds += communication;
    return assignment;
}

}  // namespace

int HeteroAssignment::gpus() const {
    int sum = 0;
    for (const WorkShare& share : shares) sum += share.gpus;
    return sum;
}

std::optional<HeteroAssignment> assign_virtual_nodes(std::span<const GpuProfile> profiles, int batch,
                                                     double communication) {
    check(profiles, batch, communication);
    const double slowest = least_slowest(profiles, batch);
    if (slowest == never) return std::nullopt;
    std::vector<WorkShare> shares;
    solve(profiles, batch, Cost::gpus, slowest, &shares);
    HeteroAssignment assignment = finish(std::move(shares), communication);
    // One GPU alone does not communicate.
    for (std::size_t type = 0; type < profiles.size(); ++type) {
        const WorkShare alone = profiles[type].count > 0 ? fastest(profiles[type], type, batch) : WorkShare{};
        if (alone.gpus == 1 && alone.seconds < assignment.seconds) assignment = finish({alone}, communication);
    }
    return assignment;
}

std::optional<HeteroAssignment> assign_one_kind(std::span<const GpuProfile> profiles, int batch, double communication) {
    std::optional<HeteroAssignment> best;
    for (std::size_t type = 0; type < profiles.size(); ++type) {
        std::optional<HeteroAssignment> one = assign_virtual_nodes(profiles.subspan(type, 1), batch, communication);
        if (!one || (best && one->seconds >= best->seconds)) continue;
        for (WorkShare& share : one->shares) share.type = type;
        best = std::move(one);
    }
    return best;
}

HeteroAssignment evaluate_shares(std::span<const GpuProfile> profiles, std::vector<WorkShare> shares,
                                 double communication) {
    std::int64_t batch = 0;
    for (const WorkShare& share : shares)
        batch += std::int64_t{share.gpus} * share.virtual_nodes * share.virtual_node_batch;
    check(profiles, batch, communication);
    for (WorkShare& share : shares) {
        const GpuProfile& profile = profiles[share.type];
        const auto point = std::ranges::find(profile.points, share.virtual_node_batch, &GpuProfile::Point::batch);
        if (point == profile.points.end())
            throw Error{Exit::usage, "{}: no batch of {} was profiled", profile.name, share.virtual_node_batch};
        share.seconds = share.local_batch() / point->rate;
    }
    return finish(std::move(shares), communication);
}

}  // namespace tpx
