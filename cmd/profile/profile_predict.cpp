// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/shared_options.hpp"
#include "cmd/output/curve_chart.hpp"
#include "cmd/output/output.hpp"
#include "cmd/output/output_file.hpp"
#include "cmd/profile/profile.hpp"
#include "formats/files/profile/runs_file.hpp"
#include "formats/files/profile/throughput_file.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/nearest.hpp"
#include "lib/core/units.hpp"
#include "lib/core/write_file.hpp"
#include "lib/model/evaluate_plan.hpp"
#include "lib/model/techniques.hpp"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>

namespace tpx::cli {
namespace {

using nlohmann::ordered_json;

struct StepPart {
    std::string_view name;
    double StepTime::*seconds;
};
constexpr std::array<StepPart, 9> step_parts{{{"forward", &StepTime::forward},
                                              {"recompute", &StepTime::recompute},
                                              {"backward", &StepTime::backward},
                                              {"gradients", &StepTime::gradients},
                                              {"tensor", &StepTime::tensor},
                                              {"pipeline", &StepTime::pipeline},
                                              {"optimizer", &StepTime::optimizer},
                                              {"offload", &StepTime::offload},
                                              {"constant", &StepTime::constant}}};

struct MemoryPart {
    std::string_view name;
    double MemoryUse::*bytes;
};
constexpr std::array<MemoryPart, 6> memory_parts{{{"weights", &MemoryUse::weights},
                                                  {"gradients", &MemoryUse::gradients},
                                                  {"optimizer", &MemoryUse::optimizer},
                                                  {"activations", &MemoryUse::activations},
                                                  {"logits", &MemoryUse::logits},
                                                  {"overhead", &MemoryUse::overhead}}};

// The job whose plans are predicted, and how sure predictions are.
struct Subject {
    Job job;
    Uncertainty uncertainty;

    SecondsRange range(const EvaluatedPlan& judged, const Allocation& allocation) const {
        return likely_seconds(uncertainty, job.model, {judged.plan, allocation, job.batch, 0, {}, {}});
    }
};

Subject subject_of(const ProfilePredictOptions& options, const formats::ThroughputModel& model, Output& out) {
    Job job = formats::job_of(model);
    if (!model.parameters) out.note("{}: not fitted to runs; the speed of common hardware is assumed", options.model);
    if (options.batch) job.batch = static_cast<double>(*options.batch);
    if (options.cpus) job.cpus = static_cast<int>(*options.cpus);
    if (job.batch == 0) throw Error{Exit::usage, "--batch is missing: {} has no batch", options.model};
    return {job, uncertainty_of(model)};
}

ordered_json prediction_json(const Subject& subject, const EvaluatedPlan& judged, const Allocation& allocation) {
    const auto [low, high] = subject.range(judged, allocation);
    ordered_json json{{"plan", to_string(judged.plan)},
                      {"seconds", judged.time.total()},
                      {"seconds_90", {low, high}},
                      {"throughput", judged.throughput(subject.job.batch)},
                      {"fits", judged.fits}};
    for (const StepPart& part : step_parts) json["parts"][std::string{part.name}] = judged.time.*part.seconds;
    for (const MemoryPart& part : memory_parts) json["memory"][std::string{part.name}] = judged.memory.*part.bytes;
    json["memory"]["gpu"] = judged.memory.total();
    json["memory"]["margin"] = judged.memory.margin;
    json["memory"]["host"] = judged.memory.host;
    return json;
}

std::string range_text(const SecondsRange& range) {
    return fmt::format("{} to {}", format_seconds(range.low), format_seconds(range.high));
}

void predict_plan(const Subject& subject, const EvaluatedPlan& judged, const Allocation& allocation, Output& out) {
    const Job& job = subject.job;
    const std::string obstacle = tpx::obstacle(job, judged.plan);
    if (judged.plan.dp > job.batch) throw Error{Exit::usage, "{}: {}", to_string(judged.plan), obstacle};
    if (out.json()) {
        ordered_json json = prediction_json(subject, judged, allocation);
        json["placement"] = allocation.gpus;
        json["batch"] = job.batch;
        if (!obstacle.empty()) json["obstacle"] = obstacle;
        return out.object("tpx.profile.predict/1", json);
    }
    if (!obstacle.empty()) out.note("{}: {}; few trainers support such plans", to_string(judged.plan), obstacle);
    out.result("plan     {} on {}, {:g} samples a step\n", to_string(judged.plan),
               formats::placement_text(allocation.gpus), job.batch);
    out.result("time     {} a step, {:.4g} samples/s\n", format_seconds(judged.time.total()),
               judged.throughput(job.batch));
    out.result("90 %     {} a step\n", range_text(subject.range(judged, allocation)));
    for (const StepPart& part : step_parts)
        if (judged.time.*part.seconds > 0)
            out.result("  {:<12} {:>10} {:>5.1f} %\n", part.name, format_seconds(judged.time.*part.seconds),
                       100 * judged.time.*part.seconds / judged.time.total());
    const std::string limit = job.gpu_memory ? " of " + format_bytes(*job.gpu_memory) : "";
    out.result("memory   {} a GPU{}, {} a host{}\n", format_bytes(judged.memory.total()), limit,
               format_bytes(judged.memory.host), judged.fits ? "" : ": does not fit");
    for (const MemoryPart& part : memory_parts)
        if (judged.memory.*part.bytes > 0)
            out.result("  {:<12} {:>10}\n", part.name, format_bytes(judged.memory.*part.bytes));
    if (judged.memory.margin > 0)
        out.result("margin   {} a GPU, because no run has measured memory\n", format_bytes(judged.memory.margin));
}

// Removes plans that use any of `excluded`. Returns their numbers by technique: "2 with tp, 3 with zero".
std::string exclude_techniques(std::vector<EvaluatedPlan>& plans, std::span<const std::string_view> excluded) {
    std::vector<std::string> reasons;
    for (const std::string_view technique : excluded) {
        const auto users =
            std::ranges::count_if(plans, [&](const EvaluatedPlan& judged) { return uses(judged.plan, technique); });
        if (users > 0) reasons.push_back(fmt::format("{} with {}", users, technique));
    }
    std::erase_if(plans, [&](const EvaluatedPlan& judged) { return uses_any(judged.plan, excluded); });
    return fmt::format("{}", fmt::join(reasons, ", "));
}

// What a plan needs of the scarcest memory, of a GPU or of a host.
struct Need {
    std::string_view where;
    double bytes, limit;

    double ratio() const { return bytes / limit; }
};

Need need_of(const Job& job, const EvaluatedPlan& judged) {
    constexpr double unlimited = std::numeric_limits<double>::infinity();
    const Need gpu{"GPU", judged.memory.needed(), job.gpu_memory.value_or(unlimited)};
    const Need host{"host", judged.memory.host, job.host_memory.value_or(unlimited)};
    return gpu.ratio() < host.ratio() ? host : gpu;
}

// "dp=1 (10.0 s per step) needs 92.1 GB, but a GPU has 80.0 GB", for a plan that does not fit.
std::string need_text(const Job& job, const EvaluatedPlan& judged, std::string_view comma = "") {
    const Need need = need_of(job, judged);
    return fmt::format("{} ({} per step){} needs {}, but a {} has {}", to_string(judged.plan),
                       format_seconds(judged.time.total()), comma, format_bytes(need.bytes), need.where,
                       format_bytes(need.limit));
}

// The error if none of `possible`, the plans that divide the model and the samples, fits into memory.
Error no_plan(const Job& job, const Allocation& allocation, std::span<const EvaluatedPlan> possible) {
    const std::vector<int>& hosts = allocation.gpus;
    const std::string gpus =
        hosts.size() == 1 ? counted(std::uint64_t(hosts[0]), "GPU") : formats::placement_text(hosts);
    if (possible.empty())
        return Error{Exit::no,  "no plan for {}: none divides {} and {:g} sample{}",
                     gpus,      counted(std::uint64_t(job.model.layers), "layer"),
                     job.batch, job.batch == 1 ? "" : "s"};
    const EvaluatedPlan& least =
        std::ranges::min(possible, {}, [&](const EvaluatedPlan& judged) { return need_of(job, judged).ratio(); });
    if (possible.size() == 1)
        return Error{Exit::no, "the only plan for {} does not fit into memory: {}", gpus, need_text(job, least)};
    return Error{Exit::no, "none of {} for {} fits into memory; the smallest, {}", counted(possible.size(), "plan"),
                 gpus, need_text(job, least, ",")};
}

// How many plans fit, and why the others do not: "42 plans fit, 1 shown; 9 do not fit; ...".
std::string counts_text(const Job& job, std::size_t fitting, std::size_t shown,
                        std::span<const EvaluatedPlan> misfits) {
    std::string text = fmt::format("{} fit{}", counted(fitting, "plan"), fitting == 1 ? "s" : "");
    if (shown < fitting) text += fmt::format(", {} shown", shown);
    if (misfits.empty()) return text;
    if (misfits.size() == 1) return text + "; 1 does not fit: " + need_text(job, misfits.front());
    return text + fmt::format("; {} do not fit; the fastest of them, {}", misfits.size(),
                              need_text(job, misfits.front(), ","));
}

void predict_best(const Subject& subject, const Allocation& allocation, const ProfilePredictOptions& options,
                  Output& out) {
    const Job& job = subject.job;
    std::vector<EvaluatedPlan> ranked = evaluated_plans(job, allocation);
    const std::size_t all = ranked.size();
    const std::string reasons = exclude_techniques(ranked, excluded_techniques(options, techniques));
    if (ranked.empty() && all > 0) throw Error{Exit::no, "every plan is excluded: {}", reasons};
    if (!reasons.empty()) out.note("{} excluded: {}", counted(all - ranked.size(), "plan"), reasons);
    const auto first_misfit = std::ranges::stable_partition(ranked, &EvaluatedPlan::fits).begin();
    const std::span<const EvaluatedPlan> fitting{ranked.begin(), first_misfit}, misfits{first_misfit, ranked.end()};
    if (fitting.empty()) throw no_plan(job, allocation, misfits);
    const auto shown = fitting.first(std::min(fitting.size(), static_cast<std::size_t>(*options.best)));
    if (out.json()) {
        ordered_json plans = ordered_json::array();
        for (const EvaluatedPlan& judged : shown) plans.push_back(prediction_json(subject, judged, allocation));
        return out.object("tpx.profile.best/1", {{"placement", allocation.gpus},
                                                 {"batch", job.batch},
                                                 {"feasible", fitting.size()},
                                                 {"infeasible", misfits.size()},
                                                 {"plans", plans}});
    }
    out.result("{:>10} {:>20} {:>12} {:>10}  {}\n", "a step", "90 % interval", "samples/s", "a GPU", "plan");
    for (const EvaluatedPlan& judged : shown)
        out.result("{:>10} {:>20} {:>12.4g} {:>10}  {}\n", format_seconds(judged.time.total()),
                   range_text(subject.range(judged, allocation)), judged.throughput(job.batch),
                   format_bytes(judged.memory.total()), to_string(judged.plan));
    out.note("{}", counts_text(job, fitting.size(), shown.size(), misfits));
}

void predict_curve(const ProfilePredictOptions& options, Job job, Output& out) {
    std::string_view range = options.curve;
    if (range.starts_with("gpus=")) range.remove_prefix(5);
    const std::size_t dots = range.find("..");
    if (dots == range.npos) throw Error{Exit::usage, "--curve: '{}' is not a range such as gpus=1..64", options.curve};
    const int first = whole_number(range.substr(0, dots), "--curve", 1, 4096);
    const int last = whole_number(range.substr(dots + 2), "--curve", 1, 4096);
    const auto per_host = static_cast<int>(options.per_host.value_or(8));
    job.excluded = excluded_techniques(options, techniques);
    if (!job.excluded.empty())
        out.note("plans with {} are excluded", one_of({job.excluded.begin(), job.excluded.end()}));
    const std::vector<CurvePoint> curve = sensitivity_curve(job, first, last, per_host);
    if (!options.svg.empty()) write_file(options.svg, curve_svg(job, curve));
    if (!options.html.empty()) write_file(options.html, curve_html(job, curve));
    if (out.json()) {
        ordered_json points = ordered_json::array();
        for (const CurvePoint& point : curve) {
            points.push_back({{"gpus", point.gpus},
                              {"plan", point.fastest ? ordered_json(to_string(point.fastest->plan)) : nullptr},
                              {"used", point.used},
                              {"throughput", point.throughput},
                              {"slope", point.slope}});
            if (!point.fastest) points.back()["reason"] = plan_or_reason(point);
        }
        return out.object(
            "tpx.profile.curve/1",
            {{"batch", job.batch}, {"per_host", per_host}, {"excluded", job.excluded}, {"points", points}});
    }
    out.result("{:>5} {:>12} {:>12}  {}\n", "GPUs", "samples/s", "one more", "plan");
    for (const CurvePoint& point : curve)
        out.result("{:>5} {:>12.4g} {:>12.4g}  {}\n", point.gpus, point.throughput, point.slope, plan_or_reason(point));
}

}  // namespace

void note_missing_sizes(const ModelSize& size, const std::string& path, Output& out) {
    const ModelSize none;
    std::vector<std::string_view> missing;
    if (size.layers == none.layers) missing.emplace_back("layers");
    if (size.hidden == none.hidden) missing.emplace_back("hidden");
    if (size.heads == none.heads) missing.emplace_back("heads");
    if (size.sequence == none.sequence) missing.emplace_back("sequence");
    if (missing.empty()) return;
    out.note("{}: [model] has no {}: memory and the time of tensor and pipeline parallelism are estimated with 1", path,
             fmt::join(missing, ", "));
}

void run_profile_predict(const ProfilePredictOptions& options, Output& out) {
    if (!is_first_rank()) return;
    const ReadRecord record;
    const auto [model, is_description, assumes_sequence] = read_named_model(
        options, [] { return std::nullopt; }, out);
    check_outputs_apart({{"--svg", options.svg}, {"--html", options.html}}, record);
    if (!is_description) note_missing_sizes(model.size, options.model, out);
    const Subject subject = subject_of(options, model, out);
    const Job& job = subject.job;
    for (const auto& [option, list] : {std::pair{"--without", &options.without}, {"--only", &options.only}})
        if (!list->empty() && !options.best && options.curve.empty())
            throw Error{Exit::usage, "{} requires --best or --curve", option};
    if (!options.curve.empty()) return predict_curve(options, job, out);
    for (const auto& [option, is_given] :
         {std::pair{"--svg", !options.svg.empty()}, std::pair{"--html", !options.html.empty()},
          std::pair{"--per-host", options.per_host.has_value()}})
        if (is_given) throw Error{Exit::usage, "{} requires --curve", option};
    Allocation allocation{{}, job.gpus_per_nic, job.cpus};
    if (!options.placement.empty()) allocation.gpus = formats::parse_placement(options.placement);
    if (options.best) {
        if (allocation.gpus.empty()) throw Error{Exit::usage, "--on is missing: the GPUs of each host, such as 2x8"};
        return predict_best(subject, allocation, options, out);
    }
    if (options.plan.empty()) throw Error{Exit::usage, "nothing to predict; pass --with, --best or --curve"};
    const ExecutionPlan plan = parse_execution_plan(options.plan);
    if (allocation.gpus.empty()) allocation.gpus = {plan.gpus()};
    predict_plan(subject, evaluate_plan(job, plan, allocation), allocation, out);
}

}  // namespace tpx::cli
