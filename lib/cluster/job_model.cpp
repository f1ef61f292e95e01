// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/job_model.hpp"

#include "lib/core/error.hpp"
#include "lib/model/execution_plan.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>

namespace tpx {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// An execution plan with words that no layout has.
bool says_how_to_step(std::string_view plan) {
    for (const std::string_view word : {"mb=", "ga=", "recompute=", "offload", ",sp"})
        if (plan.find(word) != plan.npos && plan.find('=') != plan.npos) return true;
    return false;
}

Layout named_layout(std::string_view plan, const Layout& otherwise) {
    if (plan.empty()) return otherwise;
    if (plan.size() == 3 && std::ranges::all_of(plan, is_digit)) {
        Layout layout;
        layout.pp = std::max(1, plan[0] - '0');
        layout.tp = std::max(1, plan[1] - '0');
        return layout;
    }
    Layout layout;
    if (says_how_to_step(plan)) {
        const ExecutionPlan steps = parse_execution_plan(plan);
        layout.tp = steps.tp, layout.pp = steps.pp, layout.cp = steps.cp, layout.vpp = steps.vpp;
        layout.zero = steps.zero;
        return layout;
    }
    if (plan.find('=') != plan.npos) return parse_layout(plan);
    if (plan.starts_with("zero")) layout.zero = 2;
    return layout;
}

// How many layers each of `stages` stages has; the first ones have one more where they are not equal.
std::vector<int> dealt(int layers, int stages) {
    std::vector<int> counts;
    for (int stage = 0; stage < stages; ++stage) counts.push_back(layers / stages + (stage < layers % stages ? 1 : 0));
    return counts;
}

}  // namespace

Layout JobModel::layout_on(int gpus, std::string_view plan) const {
    Layout cut = named_layout(plan, layout);
    cut.tp = std::gcd(cut.tp, gpus);
    cut.pp = std::min(std::gcd(cut.pp, gpus / cut.tp), std::max(1, state.layers));
    cut.cp = std::gcd(cut.cp, gpus / cut.tp / cut.pp);
    cut.dp = gpus / cut.tp / cut.pp / cut.cp;
    if (state.layers % (cut.pp * cut.vpp) != 0) {
        cut.vpp = 1;
        cut.stages = state.layers % cut.pp == 0 ? std::vector<int>{} : dealt(state.layers, cut.pp);
    }
    return cut;
}

ModelState transformer_state(double parameters, int layers, int hidden, int vocabulary) {
    const double left = parameters - static_cast<double>(vocabulary) * hidden;
    const auto rows = static_cast<Index>(std::llround(left / layers / hidden));
    if (rows < 1)
        throw Error{Exit::usage, "{:g} parameters are no more than an embedding of {} x {} and {} layers",
                    parameters,  vocabulary,
                    hidden,      layers};
    ModelState state{.name = "", .layers = layers, .classes = {}, .roles = parse_roles("train", DType::bf16)};
    TensorClass matrix{.name = "matrix", .shape = {rows, hidden}, .tp_axis = 0, .pad = 1};
    matrix.layers.resize(static_cast<std::size_t>(layers));
    std::iota(matrix.layers.begin(), matrix.layers.end(), 0);
    state.classes.push_back(std::move(matrix));
    if (vocabulary > 0)
        state.classes.push_back(
            {.name = "embed", .shape = {vocabulary, hidden}, .tp_axis = 0, .pad = 1, .layers = {}, .first = true});
    return state;
}

}  // namespace tpx
