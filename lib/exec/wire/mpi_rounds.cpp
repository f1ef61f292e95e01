// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/wire/mpi_rounds.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tpx {
namespace {

constexpr std::size_t most_of_message = std::size_t{1} << 30;  // see mpi::start_send()

}  // namespace

// Messages of one tag between two ranks arrive in order, and both ranks have the same order of pairs.
void MpiRounds::exchange(std::span<const OutgoingMessage> sent, std::span<const IncomingMessage> received) {
    std::vector<mpi::Request> requests;
    for (const IncomingMessage& one : received)
        for (std::size_t done = 0; done < one.bytes.size(); done += most_of_message) {
            const auto part = one.bytes.subspan(done, std::min(most_of_message, one.bytes.size() - done));
            requests.push_back(mpi::start_receive(comm_, one.from.host, mpi::Tag::chunk, part));
        }
    for (const OutgoingMessage& one : sent)
        for (std::size_t done = 0; done < one.bytes.size(); done += most_of_message) {
            const auto part = one.bytes.subspan(done, std::min(most_of_message, one.bytes.size() - done));
            requests.push_back(mpi::start_send(comm_, one.to.host, mpi::Tag::chunk, part));
        }
    for (mpi::Request& request : requests) mpi::wait(request);
}

}  // namespace tpx
