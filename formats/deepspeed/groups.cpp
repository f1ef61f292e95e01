// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/groups.hpp"

#include "lib/core/error.hpp"

namespace tpx::formats::deepspeed {

GroupLayout lay_out_group(std::span<const Index> numels, std::span<const Index> gaps, int partitions) {
    constexpr Index most = Index{1} << 60;
    GroupLayout layout{.partitions = partitions};
    for (std::size_t p = 0; p < numels.size(); ++p) {
        layout.starts.push_back(layout.total);
        const Index gap = gaps.empty() ? 0 : gaps[p];
        if (numels[p] > most || gap > most || layout.total > most) throw failure("a group of more than 2^60 elements");
        layout.total += numels[p] + gap;
    }
    // DeepSpeed aligns partitions to two elements, "nccl_start_alignment_factor".
    const Index unit = Index{2} * partitions;
    layout.part = (layout.total + unit - 1) / unit * 2;
    return layout;
}

}  // namespace tpx::formats::deepspeed
