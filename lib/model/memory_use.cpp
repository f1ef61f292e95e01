// SPDX-License-Identifier: Apache-2.0
#include "lib/model/memory_use.hpp"

#include <algorithm>
#include <cmath>

namespace tpx {
namespace {

constexpr double optimizer_bytes = 12;  // float32 weight and two moments
constexpr double bucket = 5e8;          // bytes of gradients that wait on the GPU when they are offloaded
constexpr double process_bytes = 2e9;   // of a process on its host: libraries, loader

// What uncalibrated estimates may be short by: buffers of the optimizer, fragments, communicators. Chosen so that each
// of the plans that ran out of memory in the measured tables is refused. FSDP, which gathers one layer at a time, has
// no such plan in the tables, and 97 % of its plans that ran fit without a margin.
constexpr double margin_share = 0.35;
constexpr double margin_bytes = 2e9;

// How far measured memory is expected from the calibrated estimate, as a share of it; and scale and offset from the
// default.
constexpr double memory_deviation = 0.07;
constexpr double scale_deviation = 0.15;
constexpr double offset_deviation = 10e9;

// The memory that an allocator reserves may hardly grow with the estimate, or may even shrink. Plans that need more
// than the measured ones must not seem to fit because of that.
constexpr double least_scale = 0.5;

// Parameters on the fullest GPU: stages share the layers, the first and last also have the embedding.
double local_parameters(const ModelSize& model, const ExecutionPlan& plan) {
    const double embedding = std::min(model.vocabulary * model.hidden, model.parameters);
    if (plan.pp == 1) return model.parameters / plan.tp;
    return ((model.parameters - embedding) / plan.pp + embedding) / plan.tp;
}

void add_states(const ModelSize& model, const ExecutionPlan& plan, MemoryUse& use) {
    const double own = local_parameters(model, plan), shares = plan.dp * plan.cp;
    const auto share = [&](int stage) { return plan.zero >= stage ? shares : 1; };
    use.weights = model.bytes * own / share(3);
    use.gradients = model.gradient_bytes * own / share(2);
    use.optimizer = optimizer_bytes * own / share(1);
    // The layer at work is gathered whole, and the next one is on its way.
    if (plan.zero >= 3) use.weights += 2 * model.bytes * own / std::max(1.0, double(model.layers) / plan.pp);
    if (plan.offload) {
        use.optimizer = 0;
        use.gradients = std::min(use.gradients, bucket);
    }
}

// Bytes of one layer's activations for `samples` samples (Korthikanti et al., table 2), divided among cp.
double layer_activations(const ModelSize& model, const ExecutionPlan& plan, double samples, Recompute recompute) {
    const double cell = model.sequence * samples * model.hidden / plan.cp * (model.bytes / 2), t = plan.tp;
    if (recompute == Recompute::full) return 2 * cell / (plan.sequence ? t : 1);
    const double scores = 5 * model.heads * model.sequence / (model.hidden * t);
    const double rest = plan.sequence ? 34 / t : 10 + 24 / t;
    return cell * (rest + (recompute == Recompute::none && !model.flash_attention ? scores : 0));
}

void add_activations(const ModelSize& model, double batch, const ExecutionPlan& plan, MemoryUse& use) {
    const double samples = std::ceil(batch / plan.dp) / plan.accumulation / plan.micro_batches;
    const double layers = static_cast<double>(model.layers) / plan.pp;
    const double in_flight =
        std::min(plan.micro_batches, plan.pp) * (1 + (plan.pp - 1.0) / plan.pp / plan.vpp * (plan.vpp > 1 ? 1 : 0));
    use.activations = layer_activations(model, plan, samples, plan.recompute) * layers * in_flight;
    if (plan.recompute == Recompute::full)  // and the layer at work
        use.activations += layer_activations(model, plan, samples, Recompute::none);
    use.logits = model.sequence * samples * model.vocabulary / plan.tp / plan.cp * (model.bytes + 4);
}

}  // namespace

MemoryUse memory_use(const ModelSize& model, double batch, const ExecutionPlan& plan, int gpus_per_host,
                     const MemoryCalibration& calibration) {
    MemoryUse use;
    add_states(model, plan, use);
    add_activations(model, batch, plan, use);
    if (calibration == MemoryCalibration{} && plan.zero < 3) use.margin = margin_share * use.total() + margin_bytes;
    use.overhead = (calibration.scale - 1) * use.total() + calibration.offset;
    const double local = std::min(gpus_per_host, plan.gpus());
    use.host = process_bytes * local;
    if (plan.offload)
        use.host += (optimizer_bytes + 2 * model.bytes) * local_parameters(model, plan) / (plan.dp * plan.cp) * local;
    return use;
}

MemoryCalibration calibrate_memory(std::span<const MeasuredMemory> rows) {
    // Least squares of (scale * estimate + offset) / measured - 1 and of the distances from the default.
    constexpr double gigabyte = 1e9;  // the unit of the offset here
    const MemoryCalibration usual;
    double xx = 1 / (scale_deviation * scale_deviation), x1 = 0;
    double oo = 1 / std::pow(offset_deviation / gigabyte, 2);
    double x = usual.scale * xx, o = usual.offset / gigabyte * oo;
    for (const MeasuredMemory& row : rows) {
        const double weight = 1 / (memory_deviation * memory_deviation);
        const double estimate = row.estimate / row.measured, one = gigabyte / row.measured;
        xx += weight * estimate * estimate;
        x1 += weight * estimate * one;
        oo += weight * one * one;
        x += weight * estimate;
        o += weight * one;
    }
    const double determinant = xx * oo - x1 * x1;
    const double scale = std::max(least_scale, (x * oo - o * x1) / determinant);
    return {scale, (o - scale * x1) / oo * gigabyte};
}

MemoryCalibration calibrate_memory(const ModelSize& model, std::span<const Run> runs) {
    std::vector<MeasuredMemory> rows;
    for (const Run& run : runs) {
        if (!run.memory) continue;
        const int local = std::ranges::max(run.allocation.gpus);
        rows.push_back({memory_use(model, run.batch, run.plan, local, {1, 0}).total(), *run.memory});
    }
    return calibrate_memory(rows);
}

}  // namespace tpx
