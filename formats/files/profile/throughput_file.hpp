// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/evaluate_plan.hpp"
#include "lib/model/fit.hpp"
#include "lib/model/memory_use.hpp"
#include "lib/model/uncertainty.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace tpx::formats {

/// A model, the job that trains it, and what fitting has found out: the file that `tpx profile fit` reads and writes.
struct ThroughputModel {
    ModelSize size;
    std::optional<double> batch;  ///< samples of a step
    double gpus_per_nic = 1;
    double cpus = 4;                    ///< threads for each GPU
    std::optional<double> gpu_memory;   ///< bytes
    std::optional<double> host_memory;  ///< bytes
    std::optional<double> nic;          ///< bytes per second, nominal, of one NIC
    std::optional<double> intra;        ///< the same between GPUs of one host
    std::optional<double> pcie;         ///< the same between a GPU and its host
    std::optional<Parameters> parameters;
    MemoryCalibration memory;
    std::size_t runs = 0;              ///< that were fitted
    double error = 0;                  ///< mean relative error on them
    double leave_one_out_error = 0;    ///< the same where each is predicted from all others
    std::optional<Matrix> covariance;  ///< of the logarithms of the parameters
    double interval_scale = 1;         ///< Uncertainty::scale of predictions
};

/// The job that `model` is about: with assumed parameters where it was not fitted, and a batch of 0 where it has none.
Job job_of(const ThroughputModel& model);

/// What is believed of the parameters before runs are seen: prior_belief(), and link_efficiency of the rates that the
/// file gives, to within 30 %.
Belief belief_before(const ThroughputModel& model);

/// How sure predictions by `model` are: as sure as the prior where it was not fitted.
Uncertainty uncertainty_of(const ThroughputModel& model);

/// `model`, which was not fitted, as `other`, a fitted model of another size of the same family on the same hardware,
/// lets expect it: the time of a forward pass goes with parameters times tokens, the constant of a pass with the
/// layers, and everything else is the same. Its covariance is that of `other` and what sizes differ in.
ThroughputModel like(ThroughputModel model, const ThroughputModel& other);

/// The model in TOML `text`. Throws Error (usage) "FILE:LINE: cause" for an unknown key or a value that cannot be.
ThroughputModel parse_throughput_model(std::string_view text, std::string_view file);

/// The model in the file at `path`. Throws as parse_throughput_model, and Error when the file cannot be read.
ThroughputModel read_throughput_model(const std::string& path);

/// TOML that parse_throughput_model reads as `model`, with units as comments.
std::string throughput_model_text(const ThroughputModel& model);

}  // namespace tpx::formats
