// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/pulse.hpp"

namespace tpx {

std::optional<Pulse::State> Pulse::beat(const State& mine) {
    if (comm_.size() == 1) return mine;
    if (request_ == MPI_REQUEST_NULL) {
        sent_ = {mine.bytes, mine.finished, mine.failed, mine.stopped, mine.interrupted};
        mpi::check(MPI_Iallreduce(sent_.data(), sum_.data(), static_cast<int>(sum_.size()), MPI_UINT64_T, MPI_SUM,
                                  comm_.get(), &request_),
                   "MPI_Iallreduce");
    }
    int done = 0;
    mpi::check(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) return std::nullopt;
    return State{sum_[0], sum_[1], sum_[2], sum_[3], sum_[4]};
}

}  // namespace tpx
