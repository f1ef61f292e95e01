// SPDX-License-Identifier: Apache-2.0
#include "cmd/plan/auto_layouts.hpp"

#include "cmd/jobs/parallel_for.hpp"
#include "cmd/plan/auto_costs.hpp"
#include "cmd/plan/auto_inputs.hpp"
#include "cmd/plan/plan_hosts.hpp"
#include "cmd/plan/planning.hpp"
#include "lib/change/layout_costs.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/units.hpp"
#include "lib/layout/virtual_nodes.hpp"
#include "lib/model/estimate.hpp"

#include <malloc.h>

#include <algorithm>
#include <memory>
#include <tuple>

// Of hundreds of layouts, only the best few matter, so the work is done in three steps: bounds for all layouts, which
// exclude those that do not fit in device memory; the bytes between hosts of layouts that may be among the best; plans,
// without schedules, of the best.

namespace tpx::cli {
namespace {

// Keeps freed memory for the next layout. Otherwise a tenth of the time is spent on pages that are returned to the
// kernel and cleared again.
void keep_freed_memory() {
    ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
    ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
    ::mallopt(M_TOP_PAD, 16 << 20);
}

// The largest memory of any device sold in 2026, in bytes (AMD Instinct MI400). If device memory is unknown, a layout
// that needs more than this is excluded, because it fits on no device.
constexpr double largest_device = 432e9;

class Comparing {
public:
    Comparing(const PlanOptions& options, AutoInputs subject, const StoredOnHosts* stored)
        : options_{options}, subject_{std::move(subject)}, stored_{stored} {
        result_.from = subject_.from;
        result_.ranks = subject_.ranks;
        result_.fit_of_other = subject_.fit_of_other;
        most_ = static_cast<std::size_t>(options.top.value_or(max_compared_layouts));
        find_memory();
    }

    ComparedLayouts run() {
        keep_freed_memory();
        const auto [layouts, split, excluded, excluded_by_technique] = possible_layouts(subject_);
        result_.split = split;
        result_.excluded = excluded;
        result_.excluded_by_technique = excluded_by_technique;
        if (subject_.model) {
            add_bounds(layouts);
        } else {
            for (const Layout& layout : layouts) add_plan(layout);
        }
        if (rows_.empty()) throw no_layout_error(layouts.size());
        if (options_.pareto)
            find_unbeaten();
        else
            subject_.fitted ? find_fastest() : find_cheapest();
        if (rows_.empty()) throw no_layout_error(layouts.size());
        sort_rows();
        result_.layouts.assign(rows_.begin(), rows_.end());
        return std::move(result_);
    }

private:
    struct Row : ReachableLayout {
        auto order() const { return std::tuple{crossing, is_exact, step, std::string_view{name}}; }

        std::shared_ptr<const Parcels> amounts;  // between whole hosts; null until computed, and once `is_exact`
        std::string name{};                      // the layout as text
        std::uint64_t too_large = 0;  // bytes per rank if they exceed device memory; 0: not known to exceed it
    };

    void find_memory();
    Error no_layout_error(std::size_t layouts) const;
    void count_too_large(std::uint64_t bytes);
    void add_bounds(const std::vector<Layout>& layouts);
    void add_plan(const Layout& layout);
    double step_of(const Layout& layout);
    void find_cheapest();
    void find_fastest();
    void find_unbeaten();
    void count_cheapest();
    void count_unbeaten();
    void add_costs(std::size_t count);
    void settle(Row& row, std::uint64_t bytes) const;
    bool lacks_costs(std::size_t count) const;
    void count_crossing(Row& row);
    PlanReport plan(const Layout& layout) const;
    void sort_rows();

    const PlanOptions& options_;
    AutoInputs subject_;
    const StoredOnHosts* stored_;  // null: the state is on the old ranks
    std::size_t most_ = max_compared_layouts;
    std::vector<RankLocation> seats_;
    std::optional<LayoutCosts> costs_;
    std::vector<Row> rows_;
    std::optional<Error> refusal_;  // why the last invalid layout is invalid
    ComparedLayouts result_;
};

void Comparing::find_memory() {
    result_.is_memory_known = true;
    for (const Host& host : subject_.hosts) {
        if (free_devices(host) == 0) continue;
        result_.is_memory_known = result_.is_memory_known && host.device_memory;
        result_.device_memory = std::max(result_.device_memory, host.device_memory.value_or(largest_device));
    }
}

Error Comparing::no_layout_error(std::size_t layouts) const {
    const std::string others =
        result_.excluded == 0 ? "" : fmt::format("; excluded: {}", excluded_text(result_.excluded_by_technique));
    if (result_.too_large > 0)
        return Error{Exit::no,
                     "none of {} layouts fits: the smallest needs {} per rank, but a device has {}{}",
                     result_.too_large,
                     format_bytes(static_cast<double>(result_.smallest_too_large)),
                     format_bytes(result_.device_memory),
                     others};
    if (layouts > 0 && refusal_) return *refusal_;
    if (layouts == 0 && result_.excluded > 0)
        return Error{Exit::no, "every layout is excluded: {}", excluded_text(result_.excluded_by_technique)};
    return Error{Exit::no, "no layout of {} and {} uses all ranks", counted(std::uint64_t(subject_.layers), "layer"),
                 counted(std::uint64_t(subject_.experts), "expert")};
}

void Comparing::count_too_large(std::uint64_t bytes) {
    ++result_.too_large;
    if (result_.smallest_too_large == 0 || bytes < result_.smallest_too_large) result_.smallest_too_large = bytes;
}

double Comparing::step_of(const Layout& layout) {
    const AutoInputs& s = subject_;
    StepEstimate estimate = s.fitted ? estimate_step(s.size, layout, s.hosts, s.batch, *s.fitted)
                                     : estimate_step(s.size, layout, s.hosts, s.batch);
    result_.assumed = std::move(estimate.assumed);
    return estimate.time.total();
}

void Comparing::add_bounds(const std::vector<Layout>& layouts) {
    seats_ = locations_from_options(options_, subject_.hosts, subject_.from.ranks(), state_from_options(options_));
    costs_.emplace(*subject_.model, subject_.from, subject_.hosts, seats_);
    std::vector<std::optional<LayoutCosts::Bounds>> bounds(layouts.size());
    std::vector<std::optional<Error>> refusals(layouts.size());
    parallel_for(layouts.size(), layouts.size(), [&](std::size_t i) {
        try {
            bounds[i] = costs_->bounds(layouts[i]);
        } catch (const Error& error) {
            if (error.exit() != Exit::usage) throw;
            refusals[i] = error;
        }
    });
    for (std::size_t i = 0; i < layouts.size(); ++i) {
        if (refusals[i])
            refusal_ = refusals[i];
        else if (static_cast<double>(bounds[i]->most_held) > result_.device_memory)
            count_too_large(bounds[i]->most_held);
        else
            rows_.push_back(
                {{layouts[i], step_of(layouts[i]), bounds[i]->least_crossing, false, {}}, {}, to_string(layouts[i])});
    }
}

// Makes a complete plan: what the ranks of a checkpoint hold is known only once all of its pieces are.
void Comparing::add_plan(const Layout& layout) {
    try {
        check_virtual_nodes(layout, static_cast<int>(options_.batch.value_or(0)));
        const PlanReport report = plan(layout);
        if (subject_.opened) subject_.opened->copies_are_equal = true;  // the plan has compared the copies
        const std::uint64_t most = std::ranges::max(report.change.held_after);
        if (static_cast<double>(most) > result_.device_memory) return count_too_large(most);
        const ReachableLayout::Costs costs = costs_of(report);
        rows_.push_back({{layout, step_of(layout), between_hosts(costs.total), true, costs}, {}, to_string(layout)});
    } catch (const MemoryError& error) {
        count_too_large(error.bytes());
    } catch (const Error& error) {
        if (error.exit() != Exit::usage && error.exit() != Exit::no) throw;
        refusal_ = error;
    }
}

PlanReport Comparing::plan(const Layout& layout) const {
    if (!subject_.model) {
        PlanOptions one = options_;
        one.to = to_string(layout);
        return options_.stores.empty() ? plan_checkpoint(one, &*subject_.opened, stored_) : make_plan_report(one);
    }
    PlanReport report;
    plan_model(report, *subject_.model, subject_.from, layout, subject_.hosts, seats_, options_, false);
    return report;
}

// Plans the layouts of the first `count` rows. Removes rows that turn out not to fit.
void Comparing::add_costs(std::size_t count) {
    constexpr std::size_t most_threads = 4;  // with tens of thousands of ranks, a plan takes a few hundred MB
    parallel_for(count, most_threads, [&](std::size_t i) {
        Row& row = rows_[i];
        if (row.costs) return;
        try {
            row.costs = costs_of(plan(row.layout));
        } catch (const MemoryError& error) {
            row.too_large = error.bytes();
        }
    });
    for (std::size_t i = 0; i < count; ++i) {
        if (rows_[i].costs) settle(rows_[i], between_hosts(rows_[i].costs->total));
        if (rows_[i].too_large > 0) count_too_large(rows_[i].too_large);
    }
    std::erase_if(rows_, [](const Row& row) { return row.too_large > 0; });
}

void Comparing::settle(Row& row, std::uint64_t bytes) const {
    if (row.is_exact && bytes != row.crossing)
        throw failure("{}: {} bytes between hosts in the plan, {} by whole hosts; please report it",
                      to_string(row.layout), bytes, row.crossing);
    row.crossing = bytes;
    row.is_exact = true;
}

// Refines the bytes between hosts of a row that is not exact: first a better lower bound, then the exact number.
void Comparing::count_crossing(Row& row) {
    if (!row.amounts) {
        row.amounts = std::make_shared<const Parcels>(costs_->amounts(row.layout));
        row.crossing = std::max(row.crossing, costs_->least_crossing(*row.amounts));
        return;
    }
    row.crossing = costs_->crossing(row.layout, *row.amounts, options_.pin);
    row.is_exact = true;
    row.amounts.reset();
}

// Sorts the rows by bytes between hosts, which are exact for the first `most_` rows. Lower bounds only grow, so every
// row that is ever among the first must be counted.
void Comparing::count_cheapest() {
    for (;;) {
        std::ranges::sort(rows_, {}, [](const Row& row) { return row.order(); });
        std::vector<Row*> open;
        for (Row& row : std::span{rows_}.first(std::min(rows_.size(), most_))) {
            if (!row.is_exact) open.push_back(&row);
        }
        if (open.empty()) return;
        parallel_for(open.size(), open.size(), [&](std::size_t i) { count_crossing(*open[i]); });
    }
}

// Whether one of the first `count` rows is not planned yet.
bool Comparing::lacks_costs(std::size_t count) const {
    return std::ranges::any_of(std::span{rows_}.first(count), [](const Row& row) { return !row.costs; });
}

void Comparing::find_cheapest() {
    count_cheapest();
    while (lacks_costs(std::min(rows_.size(), most_))) {
        add_costs(std::min(rows_.size(), most_));
        count_cheapest();
    }
}

void Comparing::find_fastest() {
    std::ranges::sort(rows_, {}, [](const Row& row) { return std::tuple{row.step, row.crossing}; });
    while (lacks_costs(std::min(rows_.size(), most_))) add_costs(std::min(rows_.size(), most_));
}

// Counts the bytes of all rows except those that are beaten whatever their exact bytes are.
void Comparing::count_unbeaten() {
    for (;;) {
        std::ranges::sort(rows_, {}, [](const Row& row) { return row.order(); });
        const auto is_open = [&](const Row& row) {
            const auto beats_it = [&](const Row& other) { return other.is_exact && beats(other, row); };
            return !row.is_exact && std::ranges::none_of(rows_, beats_it);
        };
        const auto open = std::ranges::find_if(rows_, is_open);
        if (open == rows_.end()) return;
        count_crossing(*open);
    }
}

void Comparing::find_unbeaten() {
    const auto is_beaten = [&](const Row& it) {
        return !it.is_exact ||
               std::ranges::any_of(rows_, [&](const Row& other) { return other.is_exact && beats(other, it); });
    };
    for (;;) {
        count_unbeaten();
        std::vector<Row> unbeaten;
        std::vector<Row> others;
        for (const Row& row : rows_) (is_beaten(row) ? others : unbeaten).push_back(row);
        const std::size_t count = unbeaten.size();
        rows_ = std::move(unbeaten);
        if (!lacks_costs(count)) return;
        rows_.insert(rows_.end(), others.begin(), others.end());
        add_costs(count);
    }
}

void Comparing::sort_rows() {
    const auto by_bytes = [](const Row& row) {
        const BytesBySource bytes = row.costs ? row.costs->total : BytesBySource{};
        return std::tuple{!row.costs, row.crossing, bytes.same_host, bytes.local, row.step, std::string_view{row.name}};
    };
    std::ranges::sort(rows_, {}, by_bytes);
    if (subject_.fitted) std::ranges::stable_sort(rows_, {}, &Row::step);
}

}  // namespace

ComparedLayouts compare_layouts(const PlanOptions& options) {
    return Comparing{options, auto_inputs(options), nullptr}.run();
}

ComparedLayouts compare_layouts(const PlanOptions& options, const OpenedCheckpoint& opened,
                                const StoredOnHosts& stored) {
    return Comparing{options, auto_inputs(options, opened, stored.hosts), &stored}.run();
}

}  // namespace tpx::cli
