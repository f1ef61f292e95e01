// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/speed.hpp"

#include <fmt/format.h>

#include <random>

namespace tpx::test {

/// Jobs with whole seconds and powers of two of GPUs, up to `gpus`.
inline std::vector<TraceJob> random_jobs(std::mt19937& random, int count, int gpus) {
    const auto below = [&](unsigned bound) { return static_cast<int>(random() % bound); };
    std::vector<TraceJob> jobs;
    Time arrival = 0;
    for (int i = 0; i < count; ++i) {
        TraceJob job;
        job.name = fmt::format("j{}", i);
        arrival += below(4) * below(600) * second;
        job.arrival = arrival;
        do job.gpus = 1 << below(5);
        while (job.gpus > gpus);
        job.most = job.gpus;
        job.work = static_cast<double>((1 + below(below(5) == 0 ? 20000 : 1500)) * second);
        job.priority = std::vector<double>{1, 5, 10}[below(3)];
        job.speed = std::make_shared<PowerSpeed>(job.gpus, 1);
        jobs.push_back(std::move(job));
    }
    return jobs;
}

/// `hosts` hosts of `gpus` GPUs of one kind.
inline Cluster simple_cluster(int hosts, int gpus) {
    Cluster cluster{{"GPU"}, {}, {}};
    for (int i = 0; i < hosts; ++i) cluster.hosts.push_back({fmt::format("n{}", i), 0, gpus, 0, 0});
    return cluster;
}

}  // namespace tpx::test
