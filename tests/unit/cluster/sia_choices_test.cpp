// SPDX-License-Identifier: Apache-2.0
// Sia's program skips choices that cannot be in a solution. It must make the same choice for each job as the program
// that skips nothing.
#include "lib/cluster/policies/sia_choices.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

namespace tpx {
namespace {

using Jobs = std::vector<std::unique_ptr<SiaChoices>>;

// Dynamic programming over all jobs, choices and numbers of GPUs.
std::vector<int> choose_from_all(const Jobs& jobs, int gpus) {
    std::vector<std::vector<double>> rows{std::vector<double>(static_cast<std::size_t>(gpus) + 1, 0.0)};
    for (const auto& job : jobs) {
        std::vector<double> row(rows.back().size(), HUGE_VAL);
        for (int choice = 0; choice < job->count(); ++choice)
            for (int has = job->gpus(choice); has <= gpus; ++has)
                row[has] = std::min(row[has], rows.back()[has - job->gpus(choice)] + job->cost(choice));
        rows.push_back(row);
    }
    std::vector<int> chosen;
    for (std::size_t i = jobs.size(); i-- > 0;) {
        int choice = 0;
        const auto is_least = [&] {
            const int left = gpus - jobs[i]->gpus(choice);
            return left >= 0 && rows[i][left] + jobs[i]->cost(choice) == rows[i + 1][gpus];
        };
        while (!is_least()) ++choice;
        chosen.push_back(choice);
        gpus -= jobs[i]->gpus(choice);
    }
    std::ranges::reverse(chosen);
    return chosen;
}

class RandomJobs {
public:
    explicit RandomJobs(unsigned seed) : random_{seed}, scaling_{seed % 3 == 0 ? 1 : 0.7} {}

    int below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }

    // Most jobs ask for one GPU, many of the others for the same numbers of GPUs.
    void come() {
        std::vector<SiaChoices::Configuration> configurations;
        const int most = below(3) > 0 ? 1 : 1 << below(5), least = below(4) == 0 ? most : 1;
        for (int gpus = least; gpus <= most; ++gpus)
            configurations.push_back({gpus, std::pow(static_cast<double>(gpus) / least, scaling_), 0});
        jobs.push_back(std::make_unique<SiaChoices>(configurations));
        jobs.back()->hold(0, 1);
        ids.push_back(next_++);
    }

    void leave() {
        const int gone = below(static_cast<int>(jobs.size()));
        jobs.erase(jobs.begin() + gone);
        ids.erase(ids.begin() + gone);
    }

    // Jobs hold the GPUs that were chosen, and have run for different times.
    void hold(const std::vector<int>& chosen) {
        for (std::size_t i = 0; i < jobs.size(); ++i) {
            const double lost = below(3) == 0 ? 0.3 * below(3) : below(3) * 1e-9;
            const int gpus = jobs[i]->gpus(chosen[i]);
            jobs[i]->hold(gpus, gpus == 0 ? 1 : 1 - lost);
        }
    }

    Jobs jobs;
    std::vector<int> ids;

private:
    std::mt19937 random_;
    double scaling_;
    int next_ = 0;
};

TEST_CASE("Sia's program makes the same choices as dynamic programming over all choices") {
    int decisions = 0, full = 0;
    for (unsigned seed = 0; seed < 60; ++seed) {
        RandomJobs random{seed};
        SiaProgram program;
        std::vector<int> chosen;
        int gpus = 4 + random.below(60);
        for (int round = 0; round < 40; ++round) {
            for (int more = random.below(round < 20 ? 8 : 3); more > 0; --more) random.come();
            for (int fewer = random.below(4); fewer > 0 && !random.jobs.empty(); --fewer) random.leave();
            if (random.below(10) == 0) gpus = 4 + random.below(60);
            std::vector<SiaChoices*> jobs;
            int most = 0;
            for (const auto& job : random.jobs) {
                jobs.push_back(job.get());
                most += job->gpus(job->count() - 1);
            }
            program.solve(jobs, random.ids, gpus, chosen);
            REQUIRE(chosen == choose_from_all(random.jobs, gpus));
            random.hold(chosen);
            ++decisions;
            full += most > gpus;
        }
    }
    CHECK(decisions == 2400);
    CHECK(full > 1000);
}

}  // namespace
}  // namespace tpx
