// SPDX-License-Identifier: Apache-2.0
#include "formats/settings/args_layout.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/dims.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace tpx::formats::megatron {

int parallel_degree(const Config& args, std::string_view key, int fallback) {
    const auto value = integer(args, key);
    if (!value) return fallback;
    if (*value < 1 || *value >= max_job_ranks) throw failure("args: {} = {}", key, *value);
    return static_cast<int>(*value);
}

Layout layout_of_args(const Config& args, const Layout& fallback) {
    Layout layout;
    layout.tp = parallel_degree(args, "tensor_model_parallel_size", fallback.tp);
    layout.pp = parallel_degree(args, "pipeline_model_parallel_size", fallback.pp);
    layout.ep = parallel_degree(args, "expert_model_parallel_size", fallback.ep);
    layout.etp = parallel_degree(args, "expert_tensor_parallel_size", layout.tp);
    layout.cp = parallel_degree(args, "context_parallel_size", 1);
    layout.vpp = parallel_degree(args, "virtual_pipeline_model_parallel_size", 1);
    if (layout.etp == layout.tp) layout.etp = 0;
    if (holds(args, "use_tp_pp_dp_mapping")) layout.order = "tp-cp-ep-pp-dp";
    if (std::max({layout.tp, layout.cp, layout.pp, layout.ep}) > max_job_ranks / 1024)
        throw failure("args: tp={}, cp={}, pp={}, ep={}", layout.tp, layout.cp, layout.pp, layout.ep);
    const int dense = layout.tp * layout.cp;
    const int least = std::lcm(dense, expert_tp(layout) * layout.ep);
    const std::int64_t world = parallel_degree(args, "world_size", least * layout.pp);
    layout.dp = static_cast<int>(world / (std::int64_t{dense} * layout.pp));
    if (layout.dp < 1 || std::int64_t{layout.dp} * dense * layout.pp != world || layout.dp * dense % least != 0)
        throw failure("args: world_size = {} is not a multiple of tp={} cp={} pp={} ep={} etp={}", world, layout.tp,
                      layout.cp, layout.pp, layout.ep, expert_tp(layout));
    return layout;
}

}  // namespace tpx::formats::megatron
