// SPDX-License-Identifier: Apache-2.0
#include "cmd/migrate_files.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>

using namespace tpx;
using namespace tpx::cli;

namespace {

struct Job {
    std::vector<Host> hosts;
    Draft draft;
    std::vector<std::vector<bool>> files;
};

/// `each` files of about equal size on each of the first `used` of `count` hosts.
Job job_of(int count, int used, int each, std::mt19937& random) {
    Job job{.hosts = uniform_hosts(count, 8)};
    job.files.assign(job.hosts.size(), std::vector<bool>(static_cast<std::size_t>(used * each)));
    for (std::size_t f = 0; f < job.files[0].size(); ++f) {
        job.draft.files.push_back({fmt::format("{}", f), 1000 + random() % 50});
        job.files[f / static_cast<std::size_t>(each)][f] = true;
    }
    return job;
}

std::vector<std::uint64_t> loads(const Job& job) {
    std::vector<std::uint64_t> bytes(job.hosts.size());
    for (std::size_t h = 0; h < bytes.size(); ++h)
        for (std::size_t f = 0; f < job.draft.files.size(); ++f)
            if (job.files[h][f]) bytes[h] += job.draft.files[f].size;
    return bytes;
}

/// The sets of hosts that have the only copies of some file.
std::set<std::vector<std::size_t>> holders(const Job& job) {
    std::set<std::vector<std::size_t>> sets;
    for (std::size_t f = 0; f < job.draft.files.size(); ++f) {
        std::vector<std::size_t> set;
        for (std::size_t h = 0; h < job.hosts.size(); ++h)
            if (job.files[h][f]) set.push_back(h);
        sets.insert(set);
    }
    return sets;
}

}  // namespace

TEST_CASE("replicas: few sets of hosts have the only copies, and the hosts keep as many bytes") {
    std::mt19937 random{1};
    for (const auto& [count, used] : {std::pair{2, 2}, {3, 3}, {64, 64}, {9, 4}, {8, 1}, {5, 4}}) {
        for (int copies = 1; copies <= std::min(3, count); ++copies) {
            Job job = job_of(count, used, 12, random);
            const std::vector<std::uint64_t> before = loads(job);
            add_replicas(job.files, job.hosts, job.draft, copies);
            for (const auto& set : holders(job)) CHECK(set.size() == static_cast<std::size_t>(copies));
            CHECK(holders(job).size() <= static_cast<std::size_t>(used));
            const std::uint64_t most = std::ranges::max(before);
            const int times = used == count && copies < 3 ? copies : copies + 1;
            CHECK(std::ranges::max(loads(job)) <= static_cast<std::uint64_t>(times) * most);
            if (used * copies <= count) CHECK(std::ranges::max(loads(job)) == most);
        }
    }
}

TEST_CASE("replicas: other switch groups first, and no copies on hosts that are lost or have no device") {
    std::mt19937 random{2};
    Job job = job_of(8, 8, 3, random);
    for (std::size_t h = 0; h < 8; ++h) job.hosts[h].switch_group = h < 4 ? "a" : "b";
    add_replicas(job.files, job.hosts, job.draft, 2);
    for (const auto& set : holders(job)) CHECK((set[0] < 4) != (set[1] < 4));
    Job fewer = job_of(5, 3, 3, random);
    fewer.hosts[3].lost = true;
    fewer.hosts[4].lost_devices = {0, 1, 2, 3, 4, 5, 6, 7};
    add_replicas(fewer.files, fewer.hosts, fewer.draft, 2);
    CHECK(loads(fewer)[3] == 0);
    CHECK(loads(fewer)[4] == 0);
    CHECK_THROWS_WITH_AS(add_replicas(fewer.files, fewer.hosts, fewer.draft, 4),
                         "--replicas 4: only 3 hosts can keep files; add hosts or use fewer replicas", Error);
}

TEST_CASE("replicas: files that several hosts have already need fewer copies") {
    std::mt19937 random{3};
    Job job = job_of(4, 4, 2, random);
    job.files[3][0] = true;
    add_replicas(job.files, job.hosts, job.draft, 2);
    std::size_t copies = 0;
    for (const std::vector<bool>& own : job.files) copies += own[0] ? 1 : 0;
    CHECK(copies == 2);
    add_replicas(job.files, job.hosts, job.draft, 3);
    for (const auto& set : holders(job)) CHECK(set.size() == 3);
}
