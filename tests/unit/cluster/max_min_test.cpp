// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/max_min.hpp"

#include "formats/files/trace/speeds_file.hpp"
#include "formats/files/trace/trace_file.hpp"
#include "lib/cluster/policies.hpp"
#include "lib/cluster/simulation.hpp"
#include "lib/cluster/speed.hpp"
#include "lib/core/error.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

namespace tpx {
namespace {

using Coefficients = std::vector<std::vector<double>>;

// x of a x = b; empty where there is not just one.
std::vector<double> solve_equations(Coefficients a, std::vector<double> b) {
    const std::size_t n = b.size();
    for (std::size_t i = 0; i < n; ++i) {
        std::size_t best = i;
        for (std::size_t k = i; k < n; ++k)
            if (std::abs(a[k][i]) > std::abs(a[best][i])) best = k;
        if (std::abs(a[best][i]) < 1e-9) return {};
        std::swap(a[i], a[best]);
        std::swap(b[i], b[best]);
        for (std::size_t k = 0; k < n; ++k) {
            if (k == i) continue;
            const double factor = a[k][i] / a[i][i];
            for (std::size_t j = 0; j < n; ++j) a[k][j] -= factor * a[i][j];
            b[k] -= factor * b[i];
        }
    }
    for (std::size_t i = 0; i < n; ++i) b[i] /= a[i][i];
    return b;
}

// The largest value at any vertex: every choice of as many tight rows (x >= 0 among them) as there are variables.
double best_vertex(const LinearProgram& program) {
    const std::size_t n = program.gain.size();
    Coefficients rows = program.rows;
    std::vector<double> limits = program.limits;
    for (std::size_t j = 0; j < n; ++j) {
        rows.emplace_back(n)[j] = -1;
        limits.push_back(0);
    }
    double best = -HUGE_VAL;
    std::vector<bool> tight(rows.size());
    std::fill(tight.begin(), tight.begin() + static_cast<std::ptrdiff_t>(n), true);
    do {
        Coefficients a;
        std::vector<double> b;
        for (std::size_t i = 0; i < rows.size(); ++i)
            if (tight[i]) a.push_back(rows[i]), b.push_back(limits[i]);
        const std::vector<double> x = solve_equations(a, b);
        if (x.empty()) continue;
        const auto product = [&](const std::vector<double>& row) {
            double sum = 0;
            for (std::size_t j = 0; j < n; ++j) sum += row[j] * x[j];
            return sum;
        };
        bool allowed = true;
        for (std::size_t i = 0; i < rows.size(); ++i) allowed = allowed && product(rows[i]) <= limits[i] + 1e-7;
        if (allowed) best = std::max(best, product(program.gain));
    } while (std::prev_permutation(tight.begin(), tight.end()));
    return best;
}

std::vector<KindUse> random_uses(std::mt19937& random, std::size_t jobs, std::size_t kinds) {
    std::vector<KindUse> uses(jobs);
    for (KindUse& use : uses) {
        use.weight = 1 + static_cast<double>(random() % 3);
        for (std::size_t t = 0; t < kinds; ++t) {
            use.rates.push_back(1 + static_cast<double>(random() % 40));
            use.gpus.push_back(1 << random() % 3);
        }
    }
    return uses;
}

TEST_CASE("max-min shares are an optimum: no vertex of the program is better") {
    std::mt19937 random{7};
    for (int round = 0; round < 60; ++round) {
        const std::size_t kinds = 2 + round % 2, jobs = kinds == 2 ? 1 + random() % 3 : 1 + random() % 2;
        const std::vector<KindUse> uses = random_uses(random, jobs, kinds);
        const std::vector<int> counts(kinds, 4);
        const LinearProgram program = max_min_program(uses, counts);
        CHECK(solve(program).value == doctest::Approx(best_vertex(program)).epsilon(1e-7));
    }
}

// The least of all jobs' shares.
double least_share(const std::vector<KindUse>& uses, const Coefficients& shares) {
    double least = HUGE_VAL;
    for (std::size_t j = 0; j < uses.size(); ++j) {
        double share = 0, mean = 0;
        for (std::size_t t = 0; t < shares[j].size(); ++t) mean += uses[j].rates[t] / double(shares[j].size());
        for (std::size_t t = 0; t < shares[j].size(); ++t)
            share += shares[j][t] * uses[j].gpus[t] * uses[j].rates[t] / mean / uses[j].weight;
        least = std::min(least, share);
    }
    return least;
}

TEST_CASE("shares found from inside are as good as the vertex of the simplex method, and use no more than is there") {
    std::mt19937 random{10};
    for (int round = 0; round < 60; ++round) {
        const std::vector<KindUse> uses = random_uses(random, 1 + random() % 12, 3);
        const std::vector<int> counts{16, 8, 4};
        const Coefficients shares = max_min_shares(uses, counts);
        CHECK(least_share(uses, shares) == doctest::Approx(solve(max_min_program(uses, counts)).value).epsilon(1e-4));
        for (std::size_t t = 0; t < 3; ++t) {
            double used = 0;
            for (std::size_t j = 0; j < uses.size(); ++j) used += shares[j][t] * uses[j].gpus[t];
            CHECK(used <= counts[t] + 1e-3);
        }
    }
}

TEST_CASE("shares of the jobs of Gavel's small trace are as good as the simplex method's, however many are there") {
    const Cluster cluster{{"K80", "P100", "V100"}, {{"k", 0, 8, 0, 0}, {"p", 1, 8, 0, 0}, {"v", 2, 8, 0, 0}}, {}};
    const formats::JobSpeeds speeds = formats::read_speeds("testdata/simulate/gavel.json", cluster);
    const formats::ParsedTrace trace = formats::read_trace("testdata/simulate/gavel.trace", cluster, speeds);
    REQUIRE(trace.jobs.size() == 20);
    std::vector<KindUse> uses;
    for (const TraceJob& job : trace.jobs) {
        KindUse use{job.priority, {}, {}};
        for (const int kind : {0, 1, 2}) {
            const auto [gpus, rate] = job.speed->on_kind(kind, job.gpus);
            use.gpus.push_back(rate > 0 ? gpus : 0);
            use.rates.push_back(rate);
        }
        uses.push_back(std::move(use));
        const std::vector<int> counts{8, 8, 8};
        CHECK(least_share(uses, max_min_shares(uses, counts)) ==
              doctest::Approx(solve(max_min_program(uses, counts)).value).epsilon(2e-4));
    }
}

// What a job has, in the unit in which jobs are compared.
double worth_of(const KindUse& use, const std::vector<double>& shares) {
    double worth = 0, mean = 0;
    for (std::size_t t = 0; t < shares.size(); ++t) {
        mean += use.rates[t] / double(shares.size());
        worth += shares[t] * use.gpus[t] * use.rates[t] / use.weight;
    }
    return worth / mean;
}

TEST_CASE(
    "fair shares: nobody can have more without taking from somebody who has no more, whatever the number of jobs") {
    std::mt19937 random{12};
    const std::vector<int> counts{16, 8, 4};
    for (const std::size_t jobs : {1, 2, 5, 12, 24, 25, 60}) {
        for (int round = 0; round < 6; ++round) {
            const std::vector<KindUse> uses = random_uses(random, jobs, 3);
            const Coefficients shares = fair_time_shares(uses, counts);
            CAPTURE(jobs);
            CHECK(least_share(uses, shares) ==
                  doctest::Approx(solve(max_min_program(uses, counts)).value).epsilon(1e-6));
            std::vector<double> worths;
            for (std::size_t j = 0; j < jobs; ++j) worths.push_back(worth_of(uses[j], shares[j]));
            // The most that one job could have while all who have no more than it keep what they have.
            for (std::size_t one = 0; one < std::min<std::size_t>(jobs, 8); ++one) {
                LinearProgram program = max_min_program(uses, counts);
                for (double& gain : program.gain) gain = 0;
                const std::size_t columns = program.gain.size();
                constexpr double keep = 1e4;  // the worth of what others keep, in the objective
                for (std::size_t j = 0; j < jobs; ++j) program.rows[j].back() = 0;
                const std::size_t extra = jobs;  // what each of the others keeps, up to what it has
                program.gain.resize(columns + extra);
                for (auto& row : program.rows) row.resize(columns + extra);
                for (std::size_t j = 0; j < jobs; ++j) {
                    program.rows[j][columns + j] = 1;
                    const bool kept = j != one && worths[j] <= worths[one] + 1e-6;
                    program.gain[columns + j] = j == one ? 1 : kept ? keep : 0;
                    std::vector<double> limit(columns + extra);
                    limit[columns + j] = 1;
                    if (j != one) program.rows.push_back(limit), program.limits.push_back(worths[j]);
                }
                const LinearSolution best = solve(program);
                CHECK(best.x[columns + one] <= worths[one] + 1e-4);
            }
            for (std::size_t t = 0; t < 3; ++t) {
                double used = 0;
                for (std::size_t j = 0; j < jobs; ++j) used += shares[j][t] * uses[j].gpus[t];
                CHECK(used <= counts[t] + 1e-6);
            }
        }
    }
}

TEST_CASE("fair shares of one kind: everybody has the same level of GPU time, or all time") {
    const std::vector<KindUse> uses{{1, {1}, {1}}, {1, {1}, {1}}, {1, {1}, {8}}, {2, {1}, {4}}};
    const Coefficients shares = fair_time_shares(uses, std::vector<int>{8});
    // Levels 1, 1, 8 x, 4 y / 2: the small jobs have all their time, 6 GPUs are left for the others at 8 x = 2 y.
    CHECK(shares[0][0] == doctest::Approx(1));
    CHECK(shares[1][0] == doctest::Approx(1));
    CHECK(shares[2][0] * 8 == doctest::Approx(shares[3][0] * 4 / 2));
    CHECK(shares[2][0] * 8 + shares[3][0] * 4 == doctest::Approx(6));
    CHECK(fair_time_shares(std::vector<KindUse>{{1, {0}, {0}}}, std::vector<int>{8})[0][0] == 0);
}

// X as the log of VirtualFlow's simulator prints it, for two, two and five jobs on 16 K80, 8 P100 and 4 V100.
TEST_CASE("shares are those of VirtualFlow's simulator, to all digits that its log has") {
    const std::vector<double> bert{373.8130840275546, 589.3243116859167, 515.2902142983745},
        transformer{21927.810219611627, 36268.88725710493, 32851.14795175931},
        resnet{1044.6757994143588, 2265.735507089018, 4679.011960804238};
    const std::vector<int> counts{16, 8, 4};
    const auto check = [&](const std::vector<KindUse>& uses, const Coefficients& wanted) {
        const Coefficients shares = max_min_shares(uses, counts);
        for (std::size_t j = 0; j < wanted.size(); ++j)
            for (std::size_t t = 0; t < 3; ++t) CHECK(shares[j][t] == doctest::Approx(wanted[j][t]).epsilon(1e-9));
    };
    check({{5, bert, counts}, {10, bert, counts}}, {{0, 0.73786, 0.2232}, {1, 0, 0}});
    check({{10, transformer, counts}, {1, transformer, counts}}, {{1, 0, 0}, {0, 0.2139, 0.30031}});
    check({{10, bert, counts},
           {10, resnet, counts},
           {10, bert, counts},
           {10, transformer, counts},
           {5, transformer, counts}},
          {{0.5, 0.02665, 0}, {0, 0, 0.89975}, {0.5, 0.02665, 0}, {0, 0.64031, 0.04658}, {0, 0.30639, 0.05368}});
}

TEST_CASE("prices prove the optimum of large programs") {
    std::mt19937 random{8};
    for (int round = 0; round < 20; ++round) {
        const std::vector<KindUse> uses = random_uses(random, 1 + random() % 40, 3);
        const LinearProgram program = max_min_program(uses, std::vector<int>{16, 8, 4});
        const LinearSolution is = solve(program);
        double bound = 0;
        for (std::size_t i = 0; i < program.rows.size(); ++i) {
            CHECK(is.prices[i] >= -1e-8);
            bound += is.prices[i] * program.limits[i];
            double used = 0;
            for (std::size_t j = 0; j < is.x.size(); ++j) used += program.rows[i][j] * is.x[j];
            CHECK(used <= program.limits[i] + 1e-7);
        }
        for (std::size_t j = 0; j < is.x.size(); ++j) {
            CHECK(is.x[j] >= -1e-9);
            double price = 0;
            for (std::size_t i = 0; i < program.rows.size(); ++i) price += is.prices[i] * program.rows[i][j];
            CHECK(price >= program.gain[j] - 1e-7);
        }
        CHECK(bound == doctest::Approx(is.value).epsilon(1e-7));
    }
    CHECK_THROWS_AS(solve({{1}, {{-1}}, {0}}), Error);
}

// Rates of models on kinds and mixes of them. What the rates of a job are tells which model it is of.
formats::JobSpeeds mixes_of(const Cluster& cluster) {
    return formats::read_speeds("testdata/simulate/virtualflow-mixes.csv", cluster);
}

std::string model_of(double v100, double k80) {
    if (v100 > 10000) return "transformer";
    if (v100 > 1000) return "resnet";
    return k80 > 374 ? "CoLA" : "SST-2";
}

// Mean completion times of the jobs of one arrival rate, those in the log, and how many jobs end another second.
struct Means {
    double played = 0, logged = 0;
    int others = 0;
};

Means play_kinds(const std::string& jobs_an_hour, bool mixed) {
    const Cluster cluster{{"V100", "P100", "K80"}, {{"v", 0, 4, 0, 0}, {"p", 1, 8, 0, 0}, {"k", 2, 16, 0, 0}}, {}};
    const formats::JobSpeeds mixes = mixes_of(cluster);
    std::ifstream file{"testdata/simulate/virtualflow-kinds.csv"};
    std::vector<TraceJob> jobs;
    std::vector<double> ends;
    Means means;
    for (std::string line; std::getline(file, line);) {
        std::vector<std::string> cells;
        std::stringstream stream{line};
        for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
        if (cells[0] != jobs_an_hour || cells[1] != (mixed ? "het" : "no-het")) continue;
        ends.push_back(std::stod(cells[4]));
        means.logged += (ends.back() - std::stod(cells[3])) / 20;
        TraceJob job;
        job.arrival = time_of(std::stod(cells[3]));
        job.gpus = 4;
        job.most = 28;
        job.priority = std::stod(cells[10]);
        job.work = std::stod(cells[9]) * 1e6;
        auto speed = std::make_shared<TableSpeed>();
        for (const int kind : {0, 1, 2}) speed->add(kind, 4 << kind, std::stod(cells[6 + kind]));
        for (const Mix& mix : mixes.find("", model_of(std::stod(cells[6]), std::stod(cells[8])))->speed->mixes())
            if (mixed) speed->add(mix);
        job.speed = speed;
        jobs.push_back(job);
    }
    REQUIRE(jobs.size() == 20);
    const SimulationRules rules;
    const SimulationResults results = Simulation{cluster, jobs, rules}.run(
        *find_policy(mixed ? "gavel-mixed-virtualflow" : "gavel-virtualflow")->make());
    for (std::size_t i = 0; i < ends.size(); ++i) {
        const JobResult& job = results.jobs[i];
        means.played += seconds_of(job.finish - job.arrival) / 20;
        means.others += std::abs(seconds_of(job.finish) - ends[i]) > 1;
    }
    return means;
}

void check_kinds(bool mixed, const std::map<std::string, int>& others) {
    for (const auto& [rate, count] : others) {
        const Means is = play_kinds(rate, mixed);
        CAPTURE(rate);
        CHECK(is.played == doctest::Approx(is.logged).epsilon(count > 0 ? 2e-3 : 1e-4));
        CHECK(is.others == count);
    }
}

TEST_CASE(
    "Gavel on three kinds of GPUs: all jobs but one of 120 end at the second that VirtualFlow's simulator logged") {
    check_kinds(false, {{"2", 1}, {"4", 0}, {"6", 0}, {"8", 0}, {"10", 0}, {"12", 0}});
}

// The work of a job is what the log's mixed run did at these rates; that is up to a sixth less than the same job did in
// the other run, because that simulator counts what mixed jobs do twice after some events.
TEST_CASE("Gavel with jobs on several kinds at once: all but two of 120 end at the second that was logged") {
    check_kinds(true, {{"2", 1}, {"4", 0}, {"6", 0}, {"8", 0}, {"10", 1}, {"12", 0}});
    CHECK(1 - play_kinds("4", true).played / play_kinds("4", false).played == doctest::Approx(0.292).epsilon(0.002));
}

}  // namespace
}  // namespace tpx
