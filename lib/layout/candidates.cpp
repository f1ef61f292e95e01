// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/candidates.hpp"

namespace tpx {
namespace {

std::vector<int> divisors(int number, int most) {
    std::vector<int> list;
    for (int n = 1; n <= number && n <= most; ++n) {
        if (number % n == 0) list.push_back(n);
    }
    return list;
}

// Splits `layers` across the stages of `layout`; if they do not divide evenly, sets vpp=1 and puts fewer on the last
// stage. Returns false if a stage would have none.
bool split_layers(Layout& layout, int layers) {
    const int chunks = layout.pp * layout.vpp;
    if (layers % chunks == 0) return true;
    layout.vpp = 1;
    const int each = (layers + layout.pp - 1) / layout.pp;
    const int last = layers - each * (layout.pp - 1);
    if (last < 1) return false;
    if (last != each) layout.last = last;
    return true;
}

// Adds `layout` with each combination of ep and etp that fits.
void add_expert_ways(std::vector<Layout>& found, Layout layout, int experts) {
    if (experts == 0) {
        found.push_back(layout);
        return;
    }
    const int group = layout.tp * layout.cp * layout.dp;
    for (int etp : {1, layout.tp}) {
        for (int ep : divisors(experts, group / etp)) {
            if (group % (ep * etp) != 0) continue;
            layout.ep = ep;
            layout.etp = etp == layout.tp ? 0 : etp;
            found.push_back(layout);
        }
        if (layout.tp == 1) break;
    }
}

}  // namespace

bool uses(const Layout& layout, std::string_view technique) {
    if (technique == "tp") return layout.tp > 1;
    if (technique == "pp") return layout.pp > 1;
    if (technique == "zero") return layout.zero > 0 || layout.fsdp > 1;
    if (technique == "ep") return layout.ep > 1;
    if (technique == "cp") return layout.cp > 1;
    return layout.vpp > 1;
}

Layout without_techniques(Layout layout, std::span<const std::string_view> excluded) {
    for (const std::string_view technique : excluded) {
        if (technique == "zero") layout.zero = 0, layout.fsdp = 1;
        if (technique == "cp") layout.cp = 1;
        if (technique == "vpp") layout.vpp = 1;
    }
    return layout;
}

std::vector<Layout> candidates(const CandidateLimits& limits) {
    std::vector<Layout> found;
    if (limits.ranks % limits.like.cp != 0) return found;
    const int free = limits.ranks / limits.like.cp;
    for (int tp : divisors(free, limits.most_tp)) {
        for (int pp : divisors(free / tp, limits.layers)) {
            Layout layout{.tp = tp,
                          .pp = pp,
                          .dp = free / tp / pp,
                          .cp = limits.like.cp,
                          .vpp = limits.like.vpp,
                          .zero = limits.like.zero,
                          .fsdp_dim = limits.like.fsdp_dim,
                          .vn = limits.like.vn};
            layout.order = limits.like.order;
            if (limits.like.fsdp > 1) layout.fsdp = layout.dp;
            if (split_layers(layout, limits.layers)) add_expert_ways(found, layout, limits.experts);
        }
    }
    return found;
}

}  // namespace tpx
