// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/layout.hpp"

#include <array>
#include <span>
#include <string_view>
#include <vector>

namespace tpx {

/// Constraints on the layouts of a model on a given number of ranks.
struct CandidateLimits {
    int ranks = 1;
    int most_tp = 8;  ///< the largest tp; a TP group should not span hosts
    int layers = 1;   ///< of the model; each stage has at least one
    int experts = 0;  ///< 0: the model has none
    Layout like;      ///< cp, zero, vpp, fsdp_dim, vn and order are copied; fsdp is dp if it is not 1 here
};

/// The techniques that a layout can use besides data parallelism, as layout keys; "zero" includes FSDP.
inline constexpr std::array<std::string_view, 6> layout_techniques{"tp", "pp", "zero", "ep", "cp", "vpp"};

/// Whether `layout` uses `technique`, one of `layout_techniques`.
bool uses(const Layout& layout, std::string_view technique);

/// `layout` without the techniques in `excluded` that candidates() copies: zero, cp and vpp.
Layout without_techniques(Layout layout, std::span<const std::string_view> excluded);

/// Every combination of tp, pp, dp, ep and etp (1 or tp) that uses all ranks, where ep divides the experts and the
/// layers are split evenly or, with vpp=1, with fewer on the last stage. Does not check whether tp divides the tensors.
std::vector<Layout> candidates(const CandidateLimits& limits);

}  // namespace tpx
