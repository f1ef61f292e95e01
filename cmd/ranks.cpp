// SPDX-License-Identifier: Apache-2.0
#include "cmd/ranks.hpp"

#include "cmd/output.hpp"
#include "lib/exec/session.hpp"

namespace tpx::cli {

void in_ranks(const std::function<Exit(const mpi::Comm&)>& body) {
    const Exit exit = mpi::with_ranks(
        body, [](std::string_view message) { fmt::print(stderr, "tpx: {}\n", printable(message, "")); });
    if (exit != Exit::success) throw Finished{exit};
}

}  // namespace tpx::cli
