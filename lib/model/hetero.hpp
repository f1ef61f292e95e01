// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tpx {

/// The offline profile of one kind of GPU: how fast it is with batches of each size.
struct GpuProfile {
    struct Point {
        int batch = 1;
        double rate = 1;  ///< examples per second
    };
    std::string name;
    int count = 1;  ///< GPUs that may be used
    std::vector<Point> points;
};

/// What each GPU of one kind does in a step.
struct WorkShare {
    std::size_t type = 0;        ///< index into the profiles
    int gpus = 0;                ///< that are used
    int virtual_nodes = 0;       ///< of each GPU, one after another
    int virtual_node_batch = 0;  ///< examples of each
    double seconds = 0;          ///< of a GPU's virtual nodes

    int local_batch() const { return virtual_nodes * virtual_node_batch; }
};

/// Virtual nodes dealt to kinds of GPUs: the shares' batches sum up to the batch of the job.
struct HeteroAssignment {
    std::vector<WorkShare> shares;  ///< of the kinds that are used, by type
    int batch = 0;
    double seconds = 0;  ///< of a step: the slowest share and the communication

    double throughput() const { return batch / seconds; }
    int gpus() const;
    /// By what a GPU of `share` weighs its mean gradient, so that every example counts alike: its part of the batch.
    double gradient_weight(const WorkShare& share) const { return static_cast<double>(share.local_batch()) / batch; }
};

/// The assignment of `batch` examples with the shortest step: for each kind i that is used, n_i GPUs with v_i virtual
/// nodes of a profiled size b_i, sum n_i v_i b_i = batch, v_i a power of two; the step takes max
/// v_i b_i / rate_i(b_i) + `communication`, which one GPU alone does not have. Of equal ones that with fewer GPUs, then
/// that with larger virtual nodes. Exact; nothing when the batch cannot be divided so. Throws Error (usage) for
/// profiles without points, sizes below 1 or rates that are not positive. After Or et al., "VirtualFlow" (MLSys 2022).
std::optional<HeteroAssignment> assign_virtual_nodes(std::span<const GpuProfile> profiles, int batch,
                                                     double communication);

/// The best assignment that uses one kind of GPU alone, for comparison.
std::optional<HeteroAssignment> assign_one_kind(std::span<const GpuProfile> profiles, int batch, double communication);

/// The step of shares that somebody else has chosen, with the profiles' rates. Throws Error (usage) when a size is not
/// profiled.
HeteroAssignment evaluate_shares(std::span<const GpuProfile> profiles, std::vector<WorkShare> shares,
                                 double communication);

}  // namespace tpx
