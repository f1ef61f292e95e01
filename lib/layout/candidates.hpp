// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/layout.hpp"

#include <array>
#include <span>
#include <string_view>
#include <vector>

namespace tpx {

/// What bounds the layouts that a model can have on given ranks.
struct CandidateLimits {
    int ranks = 1;
    int most_tp = 8;  ///< tensor parallelism inside a host only
    int layers = 1;   ///< at least one a stage
    int experts = 0;  ///< 0: the model has none
    Layout like;      ///< cp, zero, vpp, fsdp_dim and order are taken over; fsdp is used where it is used here
};

/// What a layout can use besides data parallelism, by the keys of layouts; "zero" is FSDP as well.
inline constexpr std::array<std::string_view, 6> layout_techniques{"tp", "pp", "zero", "ep", "cp", "vpp"};

/// Whether `layout` uses `technique`, one of `layout_techniques`.
bool uses(const Layout& layout, std::string_view technique);

/// `layout` without those of `excluded` that candidates() takes over: zero, cp and vpp.
Layout without_techniques(Layout layout, std::span<const std::string_view> excluded);

/// Every combination of tp, pp, dp, ep and etp (1, or as tp) that fills all ranks, has whole experts on ranks and deals
/// the layers evenly, or with fewer on the last stage. Whether tp fits the tensors is not asked.
std::vector<Layout> candidates(const CandidateLimits& limits);

}  // namespace tpx
