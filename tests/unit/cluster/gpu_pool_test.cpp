// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/gpu_pool.hpp"

#include <doctest/doctest.h>

#include <random>

namespace tpx {

TEST_CASE("hosts are the same whether they are found by their free GPUs or by looking at each") {
    std::mt19937 random{5};
    for (int round = 0; round < 200; ++round) {
        Cluster cluster{{"A", "B"}, {}, {}};
        const int hosts = 1 + static_cast<int>(random() % 90);
        for (int i = 0; i < hosts; ++i)
            cluster.hosts.push_back({"h", static_cast<int>(random() % 2), static_cast<int>(random() % 9), 0, 0});
        GpuPool pool{cluster};
        TraceJob plain, looked;
        looked.memory = 1;  // hosts without a known memory have enough, but are looked at one by one
        std::vector<Grant> held;
        for (int step = 0; step < 60; ++step) {
            plain.kind = looked.kind = static_cast<int>(random() % 3) - 1;
            const int gpus = 1 + static_cast<int>(random() % (random() % 3 == 0 ? 40 : 9));
            const auto grant = pool.place(plain, gpus);
            REQUIRE(grant == pool.place(looked, gpus));
            if (grant) pool.take(plain, grant->parts), held.push_back(*grant);
            if (random() % 8 == 0) pool.set_up(static_cast<int>(random() % unsigned(hosts)), random() % 2 == 0);
            if (held.empty() || random() % 2 == 0) continue;
            const std::size_t back = random() % held.size();
            pool.give(plain, held[back].parts);
            held.erase(held.begin() + static_cast<std::ptrdiff_t>(back));
        }
    }
}

}  // namespace tpx
