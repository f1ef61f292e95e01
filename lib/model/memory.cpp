// SPDX-License-Identifier: Apache-2.0
#include "lib/model/memory.hpp"

#include <algorithm>
#include <cmath>

namespace tpx {
namespace {

constexpr double optimizer_bytes = 12;  // float32 weight and two moments
constexpr double bucket = 5e8;          // bytes of gradients that wait on the GPU when they are offloaded
constexpr double process_bytes = 2e9;   // of a process on its host: libraries, loader

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
    use.overhead = (calibration.scale - 1) * use.total() + calibration.offset;
    const double local = std::min(gpus_per_host, plan.gpus());
    use.host = process_bytes * local;
    if (plan.offload)
        use.host += (optimizer_bytes + 2 * model.bytes) * local_parameters(model, plan) / (plan.dp * plan.cp) * local;
    return use;
}

MemoryCalibration calibrate_memory(const ModelSize& model, std::span<const Run> runs) {
    // Least squares of (scale * estimate + offset) / measured - 1.
    double xx = 0, x1 = 0, oo = 0, x = 0, o = 0;
    int count = 0;
    for (const Run& run : runs) {
        if (!run.memory) continue;
        const int local = std::ranges::max(run.allocation.gpus);
        const double estimate = memory_use(model, run.batch, run.plan, local, {1, 0}).total() / *run.memory;
        const double one = 1e9 / *run.memory;
        xx += estimate * estimate;
        x1 += estimate * one;
        oo += one * one;
        x += estimate;
        o += one;
        ++count;
    }
    MemoryCalibration result;
    if (count == 0) return result;
    const double determinant = xx * oo - x1 * x1;
    if (count < 3 || determinant < 1e-9 * xx * oo) return {(x - x1 * result.offset / 1e9) / xx, result.offset};
    return {(x * oo - o * x1) / determinant, (o * xx - x * x1) / determinant * 1e9};
}

}  // namespace tpx
