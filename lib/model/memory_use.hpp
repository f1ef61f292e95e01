// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/run.hpp"

#include <span>

namespace tpx {

/// What the estimate is multiplied with and what is added to it, once measured rows are known.
struct MemoryCalibration {
    double scale = 1.0;   ///< above 1: fragmentation
    double offset = 2e9;  ///< bytes: contexts of CUDA and NCCL, workspaces

    friend bool operator==(const MemoryCalibration&, const MemoryCalibration&) = default;
};

/// The bytes of one GPU, the fullest, in parts that add up to `total`; and of one host.
struct MemoryUse {
    double weights = 0;
    double gradients = 0;
    double optimizer = 0;
    double activations = 0;
    double logits = 0;
    double overhead = 0;  ///< what calibration adds
    double margin = 0;    ///< by how much a plan may exceed `total` if no measured memory calibrated the estimate
    double host = 0;      ///< of the fullest host, for all its ranks

    double total() const { return weights + gradients + optimizer + activations + logits + overhead; }

    /// The bytes that a GPU must have for the plan to count as one that fits.
    double needed() const { return total() + margin; }
};

/// The memory of a step of `model` with `batch` samples under `plan`, mixed-precision Adam, on hosts of at most
/// `gpus_per_host` GPUs. Activations follow Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
/// Models" (MLSys 2023); states follow Rajbhandari et al., "ZeRO" (SC 2020). tpx-throughput(5) has the formulas. The
/// default calibration has a margin, except for ZeRO 3.
MemoryUse memory_use(const ModelSize& model, double batch, const ExecutionPlan& plan, int gpus_per_host,
                     const MemoryCalibration& calibration = {});

/// What a measured run says: the bytes of its fullest GPU, and what was estimated without calibration.
struct MeasuredMemory {
    double estimate = 0;
    double measured = 0;
};

/// The scale and offset that make the estimates closest to what was measured: the maximum of the posterior, where both
/// are normal about the default, and measurements about the calibrated estimates by 7 % of them. Without any it is the
/// default; one is met by both.
MemoryCalibration calibrate_memory(std::span<const MeasuredMemory> rows);

/// The same for those of the `runs` of `model` that have measured memory.
MemoryCalibration calibrate_memory(const ModelSize& model, std::span<const Run> runs);

}  // namespace tpx
