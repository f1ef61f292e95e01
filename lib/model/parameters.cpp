// SPDX-License-Identifier: Apache-2.0
#include "lib/model/parameters.hpp"

#include <algorithm>

namespace tpx {
namespace {

// Two to the power of 0.4; of values between 1 and the root of 2, the errors on the measured tables were lowest here.
constexpr double assumed_uneven_doubling = 1.32;

}  // namespace

const std::array<ParameterInfo, parameter_count>& parameter_infos() {
    static constexpr std::array<ParameterInfo, parameter_count> infos{{
        {"forward", "s/sample", &Parameters::forward, 0, 0.7},
        {"model_parallel", "", &Parameters::model_parallel, 0, 0.7},
        {"recompute", "", &Parameters::recompute, 0, 0.1},
        {"k_bwd", "", &Parameters::k_bwd, 0, 0.15},
        {"k_sync", "", &Parameters::k_sync, 1, 0.6},
        {"k_opt", "s/parameter", &Parameters::k_opt, 0, 0.3},
        {"k_optoff", "s/parameter/thread", &Parameters::k_optoff, 0, 0.7},
        {"k_off", "", &Parameters::k_off, 1, 0.5},
        {"k_swap", "", &Parameters::k_swap, 1, 0.5},
        {"zero_exchange", "", &Parameters::zero_exchange, 0, 0.2},
        {"k_const", "s", &Parameters::k_const, 0, 0.7},
        {"intra", "B/s", &Parameters::intra, 0, 0.7},
        {"tensor_rate", "", &Parameters::tensor_rate, 0, 0.3},
        {"nic", "B/s", &Parameters::nic, 0, 1.0},
        {"pcie", "B/s", &Parameters::pcie, 0, 0.4},
        {"further_host", "s", &Parameters::further_host, 0, 0.6},
        {"further_stage", "s", &Parameters::further_stage, 0, 1.0},
        {"uneven", "s", &Parameters::uneven, 0, 1.8},
        {"uneven_alike", "", &Parameters::uneven_alike, 0, 0.4},
        {"two_hosts", "", &Parameters::two_hosts, 0, 0.1},
        {"uneven_doubling", "", &Parameters::uneven_doubling, 0, fixed_deviation, 0.4},
    }};
    return infos;
}

int parameter_index(double Parameters::*parameter) {
    return static_cast<int>(std::ranges::find(parameter_infos(), parameter, &ParameterInfo::value) -
                            parameter_infos().begin());
}

Parameters prior_parameters(const ModelSize& model) {
    Parameters prior;
    prior.uneven_doubling = assumed_uneven_doubling;
    prior.k_const = assumed_layer_constant * model.layers;
    prior.forward = 2 * model.active() * model.sequence / assumed_flops;
    return prior;
}

}  // namespace tpx
