// SPDX-License-Identifier: Apache-2.0
#include "cmd/plan_auto.hpp"

#include "cmd/plan_hosts.hpp"
#include "cmd/plan_report.hpp"
#include "cmd/planning.hpp"
#include "formats/profile/throughput_file.hpp"
#include "lib/core/error.hpp"
#include "lib/core/units.hpp"
#include "lib/layout/candidates.hpp"
#include "lib/model/estimate.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <tuple>

namespace tpx::cli {
namespace {

// A layout that could be reached.
struct Candidate {
    Layout layout;
    Bytes total;
    std::uint64_t busiest = 0;  // the most that one host sends or receives
    double seconds = 0;         // an estimate where rates are assumed
    double step = 0;            // seconds of a training step, predicted
};

// What the layouts to compare are found from.
struct Subject {
    std::optional<ModelState> model;
    Layout from;
    int layers = 1;
    int experts = 0;
    bool cut_by_family = true;
    ModelSize size;
    double batch = 0;
    std::optional<Parameters> fitted;
};

int positive(const std::string& text, const char* option, int otherwise) {
    if (text.empty()) return otherwise;
    int number = 0;
    const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (code != std::errc{} || stop != text.data() + text.size() || number < 1)
        throw Error{Exit::usage, "{}: '{}' is not a positive whole number", option, text};
    return number;
}

// What a step takes depends on these numbers of a checkpoint's model; sizes that are not known are guessed from others.
ModelSize size_of(const formats::Source& source, const Subject& subject, double sequence) {
    const auto known = [&](char factor, double otherwise) {
        return static_cast<double>(source.reading.dims[factor].value_or(static_cast<Index>(otherwise)));
    };
    ModelSize size{.name = "checkpoint", .layers = subject.layers, .sequence = sequence};
    const auto& tensors = source.checkpoint.catalogue.tensors;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        const Meaning& meaning = source.reading.meanings[t];
        if (meaning.role == "weight" && meaning.kind != Meaning::Kind::extra)
            size.parameters += static_cast<double>(volume(tensors[t].shape));
    }
    size.hidden = known('h', std::sqrt(size.parameters / 12 / subject.layers));
    size.heads = std::max(1.0, size.hidden / 128);
    size.vocabulary = known('v', 0);
    return size;
}

// Takes over what was fitted to runs of the model.
void add_fit(Subject& subject, const PlanOptions& options) {
    if (options.throughput.empty()) return;
    const formats::ThroughputModel model = formats::read_throughput_model(options.throughput);
    if (!model.parameters)
        throw Error{Exit::usage, "{}: has no fitted parameters; tpx profile fit writes them", options.throughput};
    subject.fitted = model.parameters;
    subject.size = model.size;
}

Subject subject_of(const PlanOptions& options) {
    const double sequence = positive(options.sequence, "--sequence", 4096);
    const double batch = positive(options.batch, "--batch", 512);
    if (!options.model.empty()) {
        Subject subject{.model = given_model(options), .from = given_layout(options.from)};
        subject.layers = subject.model->layers;
        for (const TensorClass& each : subject.model->classes)
            subject.experts = std::max(subject.experts, static_cast<int>(each.experts));
        subject.size = size_of(*subject.model, sequence, subject.model->experts_per_token);
        subject.batch = batch;
        add_fit(subject, options);
        return subject;
    }
    const Opened opened = open_checkpoint(options.checkpoint, options);
    const Reading& reading = opened.source.reading;
    Subject subject{.from = opened.source.layout.value_or(Layout{})};
    subject.cut_by_family = reading.family != nullptr;
    if (subject.cut_by_family) subject.layers = layers(reading, opened.source.checkpoint.catalogue.tensors);
    subject.experts = static_cast<int>(reading.dims['e'].value_or(0));
    subject.size = size_of(opened.source, subject, sequence);
    subject.batch = batch;
    add_fit(subject, options);
    return subject;
}

int ranks_at_hand(const PlanOptions& options, const std::vector<Host>& hosts) {
    int devices = 0;
    for (const Host& host : hosts) devices += host.lost || host.spare ? 0 : host.gpus;
    return positive(options.devices, "--devices", devices);
}

std::vector<Layout> layouts_of(const Subject& subject, const std::vector<Host>& hosts, int ranks) {
    CandidateLimits limits{.ranks = ranks, .layers = subject.layers, .experts = subject.experts, .like = subject.from};
    limits.most_tp = 1;
    for (const Host& host : hosts) limits.most_tp = std::max(limits.most_tp, host.gpus);
    if (!subject.cut_by_family) limits.most_tp = limits.layers = 1;
    return candidates(limits);
}

// Plans each layout; those that the tensors or the devices do not allow are left out.
std::vector<Candidate> compare(const PlanOptions& options, const Subject& subject, const std::vector<Layout>& layouts) {
    std::vector<Candidate> found;
    std::optional<Error> refusal;
    for (const Layout& layout : layouts) {
        PlanOptions one = options;
        one.to = to_string(layout);
        try {
            const PlanReport report = make_plan_report(one);
            Candidate candidate{layout, report.change.relocation.total, 0, report.change.prediction.seconds()};
            const StepEstimate estimate =
                subject.fitted
                    ? estimate_step(subject.size, layout, report.change.hosts, subject.batch, *subject.fitted)
                    : estimate_step(subject.size, layout, report.change.hosts, subject.batch);
            candidate.step = estimate.time.total();
            for (const Load& load : report.change.relocation.hosts)
                candidate.busiest = std::max({candidate.busiest, load.nic_in, load.nic_out});
            found.push_back(candidate);
        } catch (const Error& error) {
            if (error.exit() != Exit::usage && error.exit() != Exit::no) throw;
            refusal = error;
        }
    }
    if (found.empty() && refusal) throw *refusal;
    if (found.empty())
        throw Error{Exit::no, "no layout of {} layers and {} experts fills the ranks", subject.layers, subject.experts};
    const auto cost = [](const Candidate& c) {
        return std::tuple{c.total.other_host + c.total.storage, c.total.same_host, c.total.local, to_string(c.layout)};
    };
    std::ranges::sort(found, {}, cost);
    return found;
}

// Those of `list`, which is sorted by bytes, that are faster than all before them.
std::vector<Candidate> frontier(const std::vector<Candidate>& list) {
    std::vector<Candidate> kept;
    for (const Candidate& candidate : list) {
        if (kept.empty() || candidate.step < kept.back().step) kept.push_back(candidate);
    }
    return kept;
}

nlohmann::ordered_json to_json(const std::vector<Candidate>& list) {
    auto json = nlohmann::ordered_json::array();
    for (const Candidate& c : list)
        json.push_back({{"layout", to_string(c.layout)},
                        {"between_hosts", c.total.other_host + c.total.storage},
                        {"same_host", c.total.same_host},
                        {"local", c.total.local},
                        {"kept", c.total.kept},
                        {"busiest_host", c.busiest},
                        {"seconds", c.seconds},
                        {"step_seconds", c.step}});
    return json;
}

// What is copied inside hosts takes a time that is not known.
std::string time_of(const Candidate& candidate) {
    const bool is_known = candidate.seconds > 0 || candidate.total.same_host + candidate.total.local == 0;
    return is_known ? format_seconds(candidate.seconds) : "unknown";
}

void print(const std::vector<Candidate>& list, Output& out) {
    constexpr std::size_t most_lines = 20;
    const auto size = [](std::uint64_t bytes) { return format_bytes(static_cast<double>(bytes)); };
    out.result("{:>13} {:>12} {:>10} {:>9} {:>9}  {}\n", "between hosts", "busiest host", "same host", "time", "step",
               "layout");
    for (std::size_t i = 0; i < std::min(list.size(), most_lines); ++i) {
        const Candidate& c = list[i];
        out.result("{:>13} {:>12} {:>10} {:>9} {:>9}  {}\n", size(c.total.other_host + c.total.storage),
                   size(c.busiest), size(c.total.same_host), time_of(c), format_seconds(c.step), to_string(c.layout));
    }
    if (list.size() > most_lines) out.note("{} more with --json", list.size() - most_lines);
}

}  // namespace

void plan_auto(const PlanOptions& options, Output& out) {
    if (options.list) throw Error{Exit::usage, "--list: one layout must be given with --to"};
    const Subject subject = subject_of(options);
    const std::vector<Host> hosts = given_hosts(options, subject.from.ranks());
    const int ranks = ranks_at_hand(options, hosts);
    std::vector<Candidate> found = compare(options, subject, layouts_of(subject, hosts, ranks));
    if (options.pareto) found = frontier(found);
    if (subject.fitted) std::ranges::stable_sort(found, {}, &Candidate::step);
    PlanOptions best = options;
    best.to = to_string(found.front().layout);
    if (asks_for_files(options)) write_plan_files(options, make_plan_report(best));
    if (out.json())
        return out.object("tpx.plan-auto/1",
                          {{"from", to_string(subject.from)}, {"ranks", ranks}, {"candidates", to_json(found)}});
    print(found, out);
}

}  // namespace tpx::cli
