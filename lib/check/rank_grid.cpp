// SPDX-License-Identifier: Apache-2.0
#include "lib/check/rank_grid.hpp"

#include "lib/core/error.hpp"

#include <algorithm>

namespace tpx {

RankGrid::RankGrid(const Degrees& d, bool experts) {
    const std::int64_t stage_ranks = d.tp * d.cp * d.dp;
    if (experts && stage_ranks % (d.etp * d.ep) != 0)
        throw failure("layout: ep times etp does not divide tp*cp*dp = {}", stage_ranks);
    tp_.size = experts ? d.etp : d.tp;
    ep_.size = experts ? d.ep : 1;
    cp_.size = experts ? 1 : d.cp;
    dp_.size = experts ? stage_ranks / (d.etp * d.ep) : d.dp;
    pp_.size = d.pp;
    std::int64_t step = 1;
    for (std::size_t at = 0; at < d.order.size(); at += 3) {
        const char first = d.order[at];
        Digit& digit = first == 't' ? tp_ : first == 'e' ? ep_ : first == 'd' ? dp_ : first == 'c' ? cp_ : pp_;
        digit.step = step;
        step *= digit.size;
    }
    if (d.fsdp > 1) {
        if (dp_.size % d.hsdp != 0)
            throw failure("layout: {} replicas are not a multiple of hsdp={}", dp_.size, d.hsdp);
        fsdp_ = dp_.size / d.hsdp;
    }
}

std::int64_t RankGrid::shard(std::int64_t dp, std::int64_t cp, bool shared_all) const {
    if (!shared_all) return dp % fsdp_;
    return cp_.step < dp_.step ? cp + dp * cp_.size : dp + cp * dp_.size;
}

std::int64_t RankGrid::shard(std::int64_t rank, bool shared_all) const {
    return shard(dp_.digit(rank), cp_.digit(rank), shared_all);
}

std::vector<std::int32_t> RankGrid::ranks(const RankGroup& group) const {
    std::vector<std::int32_t> ranks;
    const auto range = [](std::int64_t only, std::int64_t size) {
        return only < 0 ? std::pair{std::int64_t{0}, size} : std::pair{only, only + 1};
    };
    const auto [first_part, end_part] = range(group.part, tp_.size);
    for (std::int64_t dp = 0; dp < dp_.size; ++dp) {
        for (std::int64_t cp = 0; cp < cp_.size; ++cp) {
            const std::int64_t own = group.by_dp ? dp : shard(dp, cp, group.shared_all);
            if (group.shard >= 0 && own != group.shard) continue;
            for (std::int64_t part = first_part; part < end_part; ++part) {
                const std::int64_t rank =
                    dp * dp_.step + cp * cp_.step + part * tp_.step + group.block * ep_.step + group.stage * pp_.step;
                ranks.push_back(static_cast<std::int32_t>(rank));
                if (group.other != group.stage)
                    ranks.push_back(static_cast<std::int32_t>(rank + (group.other - group.stage) * pp_.step));
            }
        }
    }
    std::ranges::sort(ranks);
    return ranks;
}

}  // namespace tpx
