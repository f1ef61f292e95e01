// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/model/model_size.hpp"

#include <array>
#include <cstddef>
#include <string_view>

namespace tpx {

/// What the throughput model knows about a model on a kind of hardware. The seven k_ are Rubick's (Zhang et al.,
/// "Rubick: Exploiting Job Reconfigurability for Deep Learning Cluster Scheduling", MLSys 2025); the rest is what that
/// paper takes as given or lumps together.
struct Parameters {
    double forward = 0;          ///< seconds of one sample's forward pass on one GPU
    double model_parallel = 1;   ///< factor on `forward` where tp or pp is used: often another implementation
    double recompute = 1;        ///< forward passes that full recomputation costs
    double k_bwd = 2;            ///< backward pass / forward pass
    double k_sync = 1.4;         ///< overlap of backward pass and gradient exchange: exponent of a power mean, >= 1
    double k_opt = 8e-11;        ///< seconds of the optimizer for one parameter on a GPU
    double k_optoff = 3e-9;      ///< the same on one CPU thread, when offloaded
    double k_off = 1.3;          ///< overlap of backward pass and gradients going to the host: exponent, >= 1
    double k_swap = 1.3;         ///< overlap of the CPU's optimizer and weights coming back: exponent, >= 1
    double zero_exchange = 0.6;  ///< reduce-scatter of gradients under ZeRO / all-reduce of them: half in theory
    double k_const = 0.03;       ///< seconds of each pass that nothing explains: what does not shrink with the batch
    double intra = 100e9;        ///< bytes per second between GPUs of one host
    double tensor_rate = 0.5;  ///< share of `intra` that all-reduces between layers reach, and products cut small cost
    double nic = 12e9;         ///< bytes per second through one NIC
    double pcie = 9e9;         ///< bytes per second between a GPU and its host
    double further_host = 3e-3;   ///< seconds for each further host that takes part in the gradient exchange
    double further_stage = 1e-2;  ///< seconds for each further pipeline stage
    double uneven = 2e-2;         ///< seconds added where GPUs do not fill their NICs on some host (data parallel)
    double uneven_alike = 1;      ///< share of `uneven` where all hosts have one NIC in use, with as many GPUs each
    double two_hosts = 1;         ///< factor on the gradient exchange of jobs on exactly two hosts
    double uneven_doubling = 1;   ///< factor on `uneven` for each doubling of the NICs of the largest host
};

/// One parameter: its name and unit in files, and what is believed of it before any run is seen, which is that the
/// logarithm of (value - least) is normal.
struct ParameterInfo {
    std::string_view name;
    std::string_view unit;
    double Parameters::*value;
    double least;                    ///< 1 for exponents, else 0
    double deviation;                ///< of the logarithm, before any run is seen
    double deviation_with_many = 0;  ///< the same with more than `few_configurations`; 0: as with few
};

/// Parameters with `deviation_with_many` are fitted only with more configurations than this; with fewer, they would
/// absorb a wrong run.
inline constexpr std::size_t few_configurations = 20;

/// The deviation of a parameter that runs do not change.
inline constexpr double fixed_deviation = 1e-4;

inline constexpr int parameter_count = 21;

/// All parameters, in the order of files and vectors.
const std::array<ParameterInfo, parameter_count>& parameter_infos();

/// The place of `parameter` in parameter_infos().
int parameter_index(double Parameters::*parameter);

/// The median of each parameter before any run is seen: the defaults above; `forward` from 2 flop a parameter and token
/// at `assumed_flops`, `k_const` from `assumed_layer_constant`.
Parameters prior_parameters(const ModelSize& model);

/// What collectives make of a link's nominal rate.
inline constexpr double link_efficiency = 0.75;

/// Seconds that each layer is assumed to add to each pass, whatever the batch: kernels that start, and wait.
inline constexpr double assumed_layer_constant = 1.2e-3;

/// What a GPU is assumed to do in a forward pass, in flop/s, before any run is seen.
inline constexpr double assumed_flops = 70e12;

}  // namespace tpx
