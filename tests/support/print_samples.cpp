// SPDX-License-Identifier: Apache-2.0
// print_samples SAMPLES SEED FIRST LAST: prints the samples at positions FIRST to LAST - 1, one per line.
#include "lib/core/sample_order.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
    if (argc != 5) return 2;
    const tpx::SampleOrder order{std::stoll(argv[1]), std::stoull(argv[2])};
    for (tpx::Index position = std::stoll(argv[3]); position < std::stoll(argv[4]); ++position)
        fmt::print("{}\n", order.sample_at(position));
}
