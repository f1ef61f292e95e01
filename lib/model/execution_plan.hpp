// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// What of a layer's activations is computed again in the backward pass.
enum class Recompute { none, selective, full };

/// How a training step is carried out: the degrees of parallelism and what is traded for memory.
struct ExecutionPlan {
    int dp = 1;                             ///< data
    int tp = 1;                             ///< tensor
    int pp = 1;                             ///< pipeline stages
    int cp = 1;                             ///< context
    int vpp = 1;                            ///< model chunks a stage
    int micro_batches = 1;                  ///< that a replica sends through its pipeline one after another
    int accumulation = 1;                   ///< passes whose gradients are added before a step
    Recompute recompute = Recompute::none;  ///<
    int zero = 0;                           ///< ZeRO stage
    bool offload = false;                   ///< optimizer state and step on the CPU
    bool sequence = false;  ///< sequence parallelism: activations outside the products are cut by tp too

    int gpus() const { return dp * tp * pp * cp; }

    friend bool operator==(const ExecutionPlan&, const ExecutionPlan&) = default;
};

/// The GPUs that a job has. Ranks fill the hosts in order; tp is innermost, then cp and dp, pp outermost.
struct Allocation {
    std::vector<int> gpus;  ///< on each host, all positive
    double gpus_per_nic = 1;
    double cpus = 4;  ///< CPU threads for each GPU

    int total() const;
};

/// Reads "dp=8,tp=2,mb=4,ga=2,recompute=full,zero=1,offload,sp". Throws Error (usage) that names the word and what is
/// allowed; degrees are 1 to 2^20 and their product is at most 2^24.
ExecutionPlan parse_execution_plan(std::string_view text);

/// The shortest text that parse_execution_plan reads as `plan`; "dp=1" when all is as it is left out.
std::string to_string(const ExecutionPlan& plan);

}  // namespace tpx
