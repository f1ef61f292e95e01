// SPDX-License-Identifier: Apache-2.0
#include "formats/files/plan/host_names.hpp"

#include "formats/files/plan/slurm_hosts.hpp"
#include "lib/core/error.hpp"

#include <doctest/doctest.h>

#include <map>

using namespace tpx;
using formats::expand_host_names;
using Names = std::vector<std::string>;

TEST_CASE("lists of hosts are expanded as Slurm writes them") {
    CHECK(expand_host_names("n1") == Names{"n1"});
    CHECK(expand_host_names("n[1-3,7],m2") == Names{"n1", "n2", "n3", "n7", "m2"});
    CHECK(expand_host_names("n[008-011]") == Names{"n008", "n009", "n010", "n011"});
    CHECK(expand_host_names("r[0-1]n[0-1]-ib") == Names{"r0n0-ib", "r0n1-ib", "r1n0-ib", "r1n1-ib"});
}

TEST_CASE("incomplete lists of hosts are refused") {
    for (const char* list : {"n[1-3", "n1]", "n[3-1]", "n[a-b]", "a,,b", "n[0-9999999]", "n[1-]", "n[-1]"}) {
        CAPTURE(list);
        CHECK_THROWS_AS(expand_host_names(list), Error);
    }
}

namespace {

std::vector<Host> in_job(std::map<std::string, std::string> variables) {
    return formats::slurm_hosts([&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional{found->second};
    });
}

}  // namespace

TEST_CASE("the hosts of a Slurm job") {
    const auto tasks = in_job({{"SLURM_JOB_NODELIST", "n[1-3],m1"}, {"SLURM_TASKS_PER_NODE", "8(x3),4"}});
    REQUIRE(tasks.size() == 4);
    CHECK(tasks[2].name == "n3");
    CHECK(tasks[2].gpus == 8);
    CHECK(tasks[3].gpus == 4);
    const auto gpus =
        in_job({{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_TASKS_PER_NODE", "1(x2)"}, {"SLURM_GPUS_ON_NODE", "8"}});
    CHECK(gpus[1].gpus == 8);
    CHECK_THROWS_AS(in_job({}), Error);
    // A step on some of the hosts has counts of its own.
    const auto step =
        in_job({{"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURM_STEP_NODELIST", "n[1,3]"}, {"SLURM_TASKS_PER_NODE", "2,4"}});
    REQUIRE(step.size() == 3);
    CHECK(step[0].gpus == 2);
    CHECK(step[1].gpus == 4);
    CHECK(step[2].gpus == 4);
    CHECK_THROWS_AS(in_job({{"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURM_TASKS_PER_NODE", "8(x2)"}}), Error);
    CHECK_THROWS_AS(in_job({{"SLURM_JOB_NODELIST", "n1"}, {"SLURM_TASKS_PER_NODE", "8(xa)"}}), Error);
}

TEST_CASE("GPUs of a Slurm job come before its tasks") {
    const auto devices = [](std::map<std::string, std::string> variables) {
        variables.insert({{"SLURM_JOB_NODELIST", "n[1-4]"}, {"SLURM_TASKS_PER_NODE", "1(x4)"}});
        const std::vector<Host> hosts = in_job(std::move(variables));
        CHECK(hosts.size() == 4);
        for (const Host& host : hosts) CHECK(host.gpus == hosts.front().gpus);
        return hosts.front().gpus;
    };
    CHECK(devices({{"SLURM_GPUS_PER_NODE", "8"}}) == 8);
    CHECK(devices({{"SLURM_GPUS_PER_NODE", "a100:8"}}) == 8);
    CHECK(devices({{"SLURM_GPUS_PER_NODE", "a100:4,v100:2"}}) == 6);
    CHECK(devices({{"SLURM_GPUS_ON_NODE", "gpu:4"}}) == 4);
    CHECK(devices({{"SLURM_GPUS_PER_NODE", "8"}, {"SLURM_GPUS_ON_NODE", "4"}}) == 8);
    CHECK(devices({{"SLURM_JOB_GPUS", "0,1,2,3"}}) == 4);
    CHECK(devices({{"SLURM_JOB_GPUS", "0-7"}}) == 8);
    CHECK(devices({{"SLURM_GPUS_ON_NODE", "4"}, {"SLURM_GPUS", "a100:16"}}) == 4);
    CHECK(devices({}) == 1);
    CHECK_THROWS_AS(devices({{"SLURM_GPUS_ON_NODE", "4"}, {"SLURM_GPUS", "14"}}), Error);
    CHECK_THROWS_AS(devices({{"SLURM_GPUS_PER_NODE", "a100:"}}), Error);
    CHECK_THROWS_AS(devices({{"SLURM_GPUS_PER_NODE", ""}}), Error);
    CHECK_THROWS_AS(devices({{"SLURM_JOB_GPUS", "0,x"}}), Error);
}
