// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/rank_progress.hpp"

#include <algorithm>
#include <array>

namespace tpx {

RankProgress::RankProgress(const mpi::Comm& comm)
    : comm_{comm}, sent_(common + static_cast<std::size_t>(comm.size())), sum_(sent_.size()) {}

std::optional<RankProgress::State> RankProgress::beat(const State& mine) {
    if (request_.is_empty()) {
        for (std::uint64_t& value : sent_) value = 0;
        std::ranges::copy(
            std::array{mine.bytes, mine.finished, mine.failed, mine.stopped, mine.interrupted, mine.asked},
            sent_.begin());
        sent_[common + static_cast<std::size_t>(comm_.rank())] = mine.asked;
        if (comm_.size() == 1) {
            sum_ = sent_;
            return mine;
        }
        request_ = mpi::start_sum(comm_, sent_, sum_);
    }
    if (!request_.test()) return std::nullopt;
    return State{sum_[0], sum_[1], sum_[2], sum_[3], sum_[4], sum_[5]};
}

}  // namespace tpx
