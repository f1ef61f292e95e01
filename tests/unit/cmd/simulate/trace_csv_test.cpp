// SPDX-License-Identifier: Apache-2.0
// The trace that `tpx simulate --write-trace` writes has the same jobs as the simulated trace.
#include "cmd/simulate/simulate.hpp"
#include "formats/files/trace/cluster_file.hpp"
#include "formats/files/trace/trace_file.hpp"
#include "lib/cluster/simulation.hpp"

#include <doctest/doctest.h>

#include <random>

namespace tpx::cli {
namespace {

Cluster written_cluster() {
    std::string text;
    for (int i = 0; i < 6; ++i)
        text += fmt::format("[[hosts]]\nname = \"n{}\"\ngpus = 8\nkind = \"{}\"\ncpus = 64\nmemory = \"512GiB\"\n", i,
                            i < 4 ? "V100" : "K80");
    text += "[[tenants]]\nname = \"vision, speech\"\nquota = 24\n[[tenants]]\nname = \"nlp\"\nquota = 24\n";
    return formats::parse_cluster(text, "cluster.toml");
}

// Rates of the model "table" alone.
constexpr std::string_view written_speeds =
    "model,kind,gpus,rate\ntable,V100,1,1.1\ntable,V100,4,3.7\ntable,V100,8,6.9\ntable,K80,2,0.3\ntable,K80,8,1.7\n";

class RandomRows {
public:
    explicit RandomRows(unsigned seed) : random_{seed} {}

    std::string text() {
        std::string rows =
            "name,arrival,gpus,duration,steps,scaling,min_gpus,max_gpus,kind,priority,tenant,guaranteed,cpus,memory,"
            "cpu_scaling,deadline,model,plan\n";
        double arrival = 0;
        for (int i = 0; i < 40; ++i) {
            arrival += below(900) + below(1000000) * 1e-6;
            const int gpus = 1 << below(4);
            const bool stepped = below(2) == 0;
            rows += fmt::format("{},{:.6f},{},{:.6f},{},", name(i), arrival, gpus, 60 + below(20000) * 0.37,
                                stepped ? std::to_string(1 + below(5000)) : "");
            rows += fmt::format("{},{},{},", maybe(0.1 * below(15)), maybe(1 + below(gpus)), maybe(gpus + below(8)));
            rows += fmt::format("{},{},{},{},",
                                below(4) > 0 ? ""
                                : below(2)   ? "V100"
                                             : "K80",
                                maybe(0.3 * (1 + below(9))),
                                below(2)   ? ""
                                : below(2) ? "\"vision, speech\""
                                           : "nlp",
                                below(2));
            rows +=
                fmt::format("{},{},{},", maybe(1 + 0.5 * below(6)), below(2) ? "" : "17.5GB", maybe(0.1 * below(9)));
            rows += fmt::format("{},{},{}\n", maybe(100 + 0.25 * below(90000)),
                                below(2) ? "table" : "\"a \"\"b\"\", c\"", below(3) ? "" : "\"dp=2,zero=1\"");
        }
        return rows;
    }

private:
    int below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }
    std::string maybe(double value) { return below(2) == 0 ? "" : fmt::format("{}", value); }
    std::string name(int i) { return below(4) > 0 ? fmt::format("j{}", i) : fmt::format("\"# {}, \"\"x\"\" \"", i); }

    std::mt19937 random_;
};

void check_same(const TraceJob& a, const TraceJob& b) {
    CHECK(a.name == b.name);
    CHECK(a.arrival == b.arrival);
    CHECK(a.gpus == b.gpus);
    CHECK(a.least == b.least);
    CHECK(a.most == b.most);
    CHECK(a.kind == b.kind);
    CHECK(a.kinds == b.kinds);
    CHECK(a.work == doctest::Approx(b.work).epsilon(1e-15));
    CHECK(a.priority == b.priority);
    CHECK(a.tenant == b.tenant);
    CHECK(a.guaranteed == b.guaranteed);
    CHECK(a.deadline == b.deadline);
    CHECK(a.cpus == b.cpus);
    CHECK(a.cpu_scaling == b.cpu_scaling);
    CHECK(a.memory == b.memory);
    CHECK(a.model == b.model);
    CHECK(a.plan == b.plan);
}

std::vector<Time> finishes(const Cluster& cluster, const std::vector<TraceJob>& jobs, const PolicyInfo& policy) {
    const std::unique_ptr<Policy> made = policy.make();
    const SimulationRules rules;
    std::vector<Time> times;
    for (const JobResult& job : Simulation{cluster, jobs, rules}.run(*made).jobs) times.push_back(job.finish);
    return times;
}

TEST_CASE("a trace that is written and read again has the same jobs and the same results") {
    const Cluster cluster = written_cluster();
    const formats::JobSpeeds none, rates = formats::parse_speeds(written_speeds, "speeds.csv", cluster);
    int jobs = 0;
    for (unsigned seed = 0; seed < 20; ++seed) {
        const formats::JobSpeeds& speeds = seed % 2 == 0 ? none : rates;
        const std::optional<Elasticity> elastic = seed % 3 == 0 ? std::optional{Elasticity{0.5, 2}} : std::nullopt;
        formats::ParsedTrace first = formats::parse_trace(RandomRows{seed}.text(), "t.csv", cluster, speeds, elastic);
        const formats::ParsedTrace second =
            formats::parse_trace(trace_csv(first.jobs, cluster), "u.csv", cluster, speeds);
        REQUIRE(second.bad.empty());
        CHECK(second.unknown_columns.empty());
        REQUIRE(first.jobs.size() == second.jobs.size());
        for (std::size_t i = 0; i < first.jobs.size(); ++i) check_same(first.jobs[i], second.jobs[i]);
        jobs += static_cast<int>(first.jobs.size());
        for (const char* policy : {"fifo-backfill", "wfs", "synergy"})
            CHECK(finishes(cluster, first.jobs, *find_policy(policy)) ==
                  finishes(cluster, second.jobs, *find_policy(policy)));
    }
    CHECK(jobs > 300);  // the others cannot run
}

}  // namespace
}  // namespace tpx::cli
