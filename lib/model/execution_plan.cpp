// SPDX-License-Identifier: Apache-2.0
#include "lib/model/execution_plan.hpp"

#include "lib/core/error.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <numeric>

namespace tpx {
namespace {

constexpr int highest_degree = 1 << 20;
constexpr std::int64_t most_gpus = std::int64_t{1} << 24;

struct Degree {
    std::string_view name;
    int ExecutionPlan::*value;
    int least;
    int most;
};

constexpr std::array<Degree, 8> degrees{{{"dp", &ExecutionPlan::dp, 1, highest_degree},
                                         {"tp", &ExecutionPlan::tp, 1, highest_degree},
                                         {"pp", &ExecutionPlan::pp, 1, highest_degree},
                                         {"cp", &ExecutionPlan::cp, 1, highest_degree},
                                         {"vpp", &ExecutionPlan::vpp, 1, highest_degree},
                                         {"mb", &ExecutionPlan::micro_batches, 1, highest_degree},
                                         {"ga", &ExecutionPlan::accumulation, 1, highest_degree},
                                         {"zero", &ExecutionPlan::zero, 0, 3}}};

constexpr std::array<std::string_view, 3> recompute_names{"none", "selective", "full"};

int number(const Degree& degree, std::string_view text) {
    int value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc{} || end != text.data() + text.size() || value < degree.least || value > degree.most)
        throw Error{Exit::usage,  "plan: {}={}: a whole number from {} to {} was expected",
                    degree.name,  text,
                    degree.least, degree.most};
    return value;
}

void set(ExecutionPlan& plan, std::string_view key, std::string_view value, std::string_view word) {
    for (const Degree& degree : degrees) {
        if (degree.name == key) {
            plan.*degree.value = number(degree, value);
            return;
        }
    }
    if (key == "recompute") {
        for (std::size_t i = 0; i < recompute_names.size(); ++i) {
            if (recompute_names[i] == value) {
                plan.recompute = Recompute(i);
                return;
            }
        }
        throw Error{Exit::usage, "plan: recompute={}: none, selective or full was expected", value};
    }
    if (word == "offload")
        plan.offload = true;
    else if (word == "sp")
        plan.sequence = true;
    else
        throw Error{Exit::usage,
                    "plan: unknown word '{}'; dp=, tp=, pp=, cp=, vpp=, mb=, ga=, zero=, recompute=, offload and sp "
                    "are known",
                    word};
}

}  // namespace

int Allocation::total() const { return std::accumulate(gpus.begin(), gpus.end(), 0); }

ExecutionPlan parse_execution_plan(std::string_view text) {
    ExecutionPlan plan;
    if (text.empty()) throw Error{Exit::usage, "plan: it is empty; 'dp=1' is the plan of one GPU"};
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(','), text.size());
        const std::string_view word = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        const std::size_t equals = std::min(word.find('='), word.size());
        set(plan, word.substr(0, equals), word.substr(std::min(equals + 1, word.size())), word);
    }
    std::int64_t product = 1;
    for (const int degree : {plan.dp, plan.tp, plan.pp, plan.cp}) {
        product *= degree;
        if (product > most_gpus) throw Error{Exit::usage, "plan: more than {} GPUs", most_gpus};
    }
    return plan;
}

std::string to_string(const ExecutionPlan& plan) {
    const ExecutionPlan standard;
    std::string text;
    const auto add = [&](std::string_view word) {
        if (!text.empty()) text += ',';
        text += word;
    };
    for (const Degree& degree : degrees)
        if (plan.*degree.value != standard.*degree.value) add(fmt::format("{}={}", degree.name, plan.*degree.value));
    if (plan.recompute != Recompute::none)
        add(fmt::format("recompute={}", recompute_names[static_cast<std::size_t>(plan.recompute)]));
    if (plan.offload) add("offload");
    if (plan.sequence) add("sp");
    return text.empty() ? "dp=1" : text;
}

}  // namespace tpx
