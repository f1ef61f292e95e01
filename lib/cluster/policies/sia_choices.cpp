// SPDX-License-Identifier: Apache-2.0
// Lagrangian relaxation: with a price for each GPU, jobs choose independently. The sum of their least costs, minus the
// price of all GPUs, is a lower bound of the least sum; any choices that fit give an upper bound. A choice is in no
// solution if it costs its job more than the best one by more than the gap between the bounds. Dynamic programming over
// the number of GPUs then finds the best solution among the few choices that remain.
#include "lib/cluster/policies/sia_choices.hpp"

#include <algorithm>
#include <cmath>

namespace tpx {

SiaChoices::SiaChoices(std::vector<Configuration> configurations) : all_{std::move(configurations)} {
    for (Configuration& is : all_) is.cost = std::pow(is.speed, -0.5);
}

void SiaChoices::hold(int gpus, double kept) {
    if (gpus == held_ && kept == kept_) return;
    held_ = gpus;
    kept_ = kept;
    factor_ = 1 / std::sqrt(kept);
    best_.price = -1;
}

constexpr double without_gpus = 1.1;

double SiaChoices::cost(int choice) const {
    if (choice == 0) return without_gpus;
    const Configuration& is = all_[static_cast<std::size_t>(choice - 1)];
    return is.gpus == held_ || kept_ == 1 ? is.cost : std::pow(is.speed * kept_, -0.5);
}

double SiaChoices::sum(int choice, double price) const {
    if (choice == 0) return without_gpus;
    const Configuration& is = all_[static_cast<std::size_t>(choice - 1)];
    return (is.gpus == held_ ? is.cost : is.cost * factor_) + price * is.gpus;
}

const SiaChoices::Best& SiaChoices::best(double price) {
    if (best_.price == price) return best_;
    best_ = {price, 0, without_gpus, HUGE_VAL};
    for (int choice = 1; choice < count(); ++choice) {
        const double here = sum(choice, price);
        if (here < best_.sum) {
            best_.other = best_.sum;
            best_.sum = here;
            best_.choice = choice;
        } else {
            best_.other = std::min(best_.other, here);
        }
    }
    return best_;
}

double SiaProgram::Row::at(int gpus) const {
    if (gpus < from) return HUGE_VAL;
    return least[static_cast<std::size_t>(std::min(gpus, to) - from)];
}

SiaProgram::Line SiaProgram::evaluate(double price) {
    Line line{0, -static_cast<double>(gpus_)};
    for (SiaChoices* job : jobs_) {
        const SiaChoices::Best& best = job->best(price);
        const int used = job->gpus(best.choice);
        line.sum += best.sum - price * used;
        line.slope += used;
    }
    return line;
}

namespace {

// The largest rounding error of a sum of the costs of so many jobs.
double rounding_of(std::size_t jobs) {
    const auto count = static_cast<double>(jobs);
    return 1e-11 + 1e-15 * count * count;
}

}  // namespace

// A price at which the jobs choose no more GPUs than are available, and at which the lower bound, a concave function of
// the price, almost has its maximum. Returns the price of the last call if that leaves no gap; otherwise searches where
// tangents of the bound intersect.
double SiaProgram::find_price() {
    const double rounding = rounding_of(jobs_.size());
    const Line warm = evaluate(price_);
    if (warm.slope <= 0 && gap(price_, static_cast<int>(-warm.slope)) <= rounding) return price_;
    Line low = evaluate(0), high{without_gpus * static_cast<double>(jobs_.size()), -static_cast<double>(gpus_)};
    if (low.slope <= 0) return 0;
    (warm.slope > 0 ? low : high) = warm;
    double price = 0;
    for (int step = 0; step < 100; ++step) {
        price = (high.sum - low.sum) / (low.slope - high.slope);
        const Line here = evaluate(price);
        if (here.at(price) >= low.at(price) - rounding) break;
        (here.slope > 0 ? low : high) = here;
    }
    for (double more = 1e-13; evaluate(price).slope > 0; more *= 4) price += more;
    return price;
}

// An upper bound of the difference between the least sum and its lower bound at `price`. The best choices of the jobs
// leave `left` GPUs free, some of which other choices then use.
double SiaProgram::gap(double price, int left) const {
    double loss = 0;
    const double rounding = rounding_of(jobs_.size());
    for (const double limit : {rounding, price}) {
        for (std::size_t i = 0; i < jobs_.size() && left > 0; ++i) {
            const SiaChoices& job = *jobs_[i];
            const SiaChoices::Best best = jobs_[i]->best(price);
            const bool tied = best.other - best.sum <= rounding;
            if (tied != (limit == rounding) || best.other - best.sum > limit) continue;
            const int now = job.gpus(best.choice);
            for (int choice = best.choice + 1; choice < job.count(); ++choice) {
                const int more = job.gpus(choice) - now;
                const double worse = job.sum(choice, price) - best.sum;
                if (more > left || worse > limit || worse > price * more) continue;
                loss += worse;
                left -= more;
                break;
            }
        }
        if (left == 0) break;
    }
    return loss + price * left;
}

void SiaProgram::find_ranges(double price, double gap) {
    ranges_.resize(jobs_.size());
    long fewest = 0, most = 0;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
        SiaChoices& job = *jobs_[i];
        const SiaChoices::Best& best = job.best(price);
        Range& range = ranges_[i];
        range.first = range.last = best.choice;
        if (best.other - best.sum <= gap) {
            range.first = 0;
            while (job.sum(range.first, price) - best.sum > gap) ++range.first;
            range.last = job.count() - 1;
            while (job.sum(range.last, price) - best.sum > gap) --range.last;
        }
        fewest += job.gpus(range.first);
        most += job.gpus(range.last);
    }
    long before_fewest = 0, before_most = 0;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
        Range& range = ranges_[i];
        before_fewest += jobs_[i]->gpus(range.first);
        before_most += jobs_[i]->gpus(range.last);
        const long later_fewest = fewest - before_fewest, later_most = most - before_most;
        range.to = static_cast<int>(std::min(before_most, gpus_ - later_fewest));
        range.from = static_cast<int>(std::min<long>(range.to, std::max(before_fewest, gpus_ - later_most)));
    }
}

// Whether row `i` of the last call has the costs that this call needs.
bool SiaProgram::holds(std::size_t i) const {
    const Row& row = rows_[i];
    const Range& range = ranges_[i];
    const SiaChoices& job = *jobs_[i];
    const int count = static_cast<int>(row.candidates.size());
    if (row.id != ids_[i] || range.first < row.first || range.last >= row.first + count) return false;
    if (range.from < row.from || range.to > row.to) return false;
    for (int choice = 0; choice < count; ++choice) {
        const int number = row.first + choice;
        if (row.candidates[static_cast<std::size_t>(choice)] != Candidate{job.gpus(number), job.cost(number)})
            return false;
    }
    return true;
}

void SiaProgram::compute(std::size_t i) {
    static const Row nothing{-1, 0, {}, 0, 0, {0}};
    const Row& before = i > 0 ? rows_[i - 1] : nothing;
    Row& row = rows_[i];
    const Range& range = ranges_[i];
    const SiaChoices& job = *jobs_[i];
    row.id = ids_[i];
    row.first = range.first;
    row.candidates.clear();
    for (int choice = range.first; choice <= range.last; ++choice)
        row.candidates.push_back({job.gpus(choice), job.cost(choice)});
    row.from = range.from;
    row.to = range.to;
    row.least.resize(static_cast<std::size_t>(row.to - row.from + 1));
    int known = 0;  // how many entries of row.least are set
    for (const Candidate& choice : row.candidates) known = add_candidate(before, choice, known, row);
}

// Adds a candidate to a row, in which earlier candidates have set the first `known` costs. Returns how many are set
// now.
int SiaProgram::add_candidate(const Row& before, const Candidate& choice, int known, Row& row) {
    double* least = row.least.data();
    const double* least_before = before.least.data();
    const int size = row.to - row.from + 1;
    // From an entry of `row` to the entry of `before` for the GPUs without those of the candidate.
    const int shift = row.from - before.from - choice.gpus;
    const int flat = std::min(size, static_cast<int>(before.least.size()) - shift);
    int i = std::clamp(-shift, 0, size);
    for (; known < i; ++known) least[known] = HUGE_VAL;
    for (const int end = std::min(known, flat); i < end; ++i)
        least[i] = std::min(least[i], least_before[i + shift] + choice.cost);
    for (; i < flat; ++i) least[i] = least_before[i + shift] + choice.cost;
    const double rest = before.least.back() + choice.cost;
    for (; i < known; ++i) least[i] = std::min(least[i], rest);
    for (; i < size; ++i) least[i] = rest;
    return size;
}

void SiaProgram::choose(std::vector<int>& chosen) const {
    int left = gpus_;
    for (std::size_t i = jobs_.size(); i-- > 0;) {
        const Row& row = rows_[i];
        const double least = row.at(left);
        const auto found = std::ranges::find_if(row.candidates, [&](const Candidate& choice) {
            if (choice.gpus > left) return false;
            return least == (i > 0 ? rows_[i - 1].at(left - choice.gpus) : 0) + choice.cost;
        });
        chosen[i] = row.first + static_cast<int>(found - row.candidates.begin());
        left -= found->gpus;
    }
}

void SiaProgram::solve(std::span<SiaChoices* const> jobs, std::span<const int> ids, int gpus,
                       std::vector<int>& chosen) {
    jobs_ = jobs;
    ids_ = ids;
    gpus_ = gpus;
    price_ = find_price();
    const double above = gap(price_, static_cast<int>(-evaluate(price_).slope));
    find_ranges(price_, above + rounding_of(jobs.size()));
    chosen.resize(jobs.size());
    if (std::ranges::all_of(ranges_, [](const Range& range) { return range.first == range.last; })) {
        for (std::size_t i = 0; i < jobs.size(); ++i) chosen[i] = ranges_[i].first;
        return;
    }
    if (gpus != row_gpus_) known_rows_ = 0;
    row_gpus_ = gpus;
    if (rows_.size() < jobs.size()) rows_.resize(jobs.size());
    std::size_t same = 0;
    while (same < std::min(known_rows_, jobs.size()) && holds(same)) ++same;
    for (std::size_t i = same; i < jobs.size(); ++i) compute(i);
    known_rows_ = jobs.size();
    choose(chosen);
}

}  // namespace tpx
