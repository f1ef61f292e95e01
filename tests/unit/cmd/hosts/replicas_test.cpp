// SPDX-License-Identifier: Apache-2.0
#include "cmd/hosts/migrate_files.hpp"

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

TEST_CASE("replicas: few sets of hosts have the only copies, and hosts store similar amounts") {
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

TEST_CASE("replicas: other switch groups are preferred; hosts that are lost or have no device get no copies") {
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

TEST_CASE("replicas: files that several hosts already have need fewer copies") {
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

TEST_CASE("replicas: for random files, hosts and switch groups, losing any `copies` - 1 hosts loses no file") {
    std::mt19937 random{4};
    for (int round = 0; round < 2000; ++round) {
        const int count = 1 + static_cast<int>(random() % 7);
        Job job{.hosts = uniform_hosts(count, 2)};
        std::vector<std::size_t> remaining;
        for (std::size_t h = 0; h < job.hosts.size(); ++h) {
            if (random() % 4 > 0) job.hosts[h].switch_group = fmt::format("{}", random() % 3);
            if (random() % 5 == 0) job.hosts[h].lost = true;
            if (random() % 8 == 0) job.hosts[h].lost_devices = {0, 1};  // a host that leaves
            if (!job.hosts[h].lost && job.hosts[h].lost_devices.empty()) remaining.push_back(h);
        }
        if (remaining.empty()) continue;
        // The layout puts each file on one host or, for its own replicas, on several.
        job.files.assign(job.hosts.size(), std::vector<bool>(1 + random() % 12));
        for (std::size_t f = 0; f < job.files[0].size(); ++f) {
            job.draft.files.push_back({fmt::format("{}", f), random() % 100});
            for (std::size_t k = 1 + (random() % 3 == 0 ? random() % 3 : 0); k > 0; --k)
                job.files[remaining[random() % remaining.size()]][f] = true;
        }
        const auto before = job.files;
        const int copies = 1 + static_cast<int>(random() % std::min<std::size_t>(3, remaining.size()));
        add_replicas(job.files, job.hosts, job.draft, copies);
        const std::vector<std::uint32_t> groups = switch_groups(job.hosts);
        std::set<std::uint32_t> all_groups;
        for (const std::size_t h : remaining) all_groups.insert(groups[h]);
        for (std::size_t f = 0; f < job.draft.files.size(); ++f) {
            int has = 0, had = 0;
            std::set<std::uint32_t> used;
            for (std::size_t h = 0; h < job.hosts.size(); ++h) {
                if (before[h][f]) CHECK(job.files[h][f]);
                if (!job.files[h][f]) continue;
                CHECK(std::ranges::count(remaining, h) == 1);
                ++has;
                had += before[h][f] ? 1 : 0;
                used.insert(groups[h]);
            }
            CHECK(has >= copies);  // so that one is left if any `copies` - 1 hosts are lost
            CHECK(has <= std::max(copies, had + 1));
            if (copies > 1 && all_groups.size() > 1) CHECK(used.size() > 1);
            if (copies == 1) CHECK(has == had);
        }
    }
}
