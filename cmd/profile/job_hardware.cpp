// SPDX-License-Identifier: Apache-2.0
#include "cmd/profile/job_hardware.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>

namespace tpx::cli {

std::vector<int> JobHardware::first_ranks() const {
    std::vector<int> firsts;
    for (const std::vector<int>& own : ranks_of) firsts.push_back(own.front());
    return firsts;
}

std::vector<int> JobHardware::ranks_with_gpus() const {
    std::vector<int> members;
    std::set<std::pair<int, std::string>> taken;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
        if (!ranks[rank].gpu.empty() && taken.emplace(host_of[rank], ranks[rank].gpu).second)
            members.push_back(static_cast<int>(rank));
    return members;
}

std::string plain_host_name(std::string name) {
    const auto is_odd = [](unsigned char c) { return !std::isalnum(c) && c != '-' && c != '.' && c != '_'; };
    std::ranges::replace_if(name, is_odd, '_');
    return name.empty() ? "_" : name;
}

JobHardware gather_job_hardware(const mpi::Comm& comm, const RankHardware& mine) {
    std::string group = mine.switch_group;
    std::ranges::replace_if(
        group, [](char c) { return c == '\t' || c == '\n'; }, ' ');
    const std::string line = fmt::format("{}\t{}\t{}\t{}\n", mine.host, group, mine.socket, mine.gpu);
    std::string all;
    for (const std::string& each : mpi::all_gather(comm, line)) all += each;
    JobHardware places;
    std::istringstream lines{all};
    for (std::string text; std::getline(lines, text);) {
        std::istringstream fields{text};
        RankHardware& rank = places.ranks.emplace_back();
        std::string socket;
        std::getline(fields, rank.host, '\t');
        std::getline(fields, rank.switch_group, '\t');
        std::getline(fields, socket, '\t');
        std::getline(fields, rank.gpu, '\t');
        rank.socket = std::stoi(socket);
        const auto known = std::ranges::find(places.hosts, rank.host);
        const auto host = known - places.hosts.begin();
        if (known == places.hosts.end()) {
            places.hosts.push_back(rank.host);
            places.ranks_of.emplace_back();
        }
        places.ranks_of[host].push_back(static_cast<int>(places.host_of.size()));
        places.host_of.push_back(static_cast<int>(host));
    }
    return places;
}

PairRound pairs_within_hosts(const JobHardware& places, bool across) {
    PairRound pairs;
    for (const std::vector<int>& ranks : places.ranks_of) {
        const auto wanted = [&](int a, int b) {
            const int one = places.ranks[a].socket, two = places.ranks[b].socket;
            return across ? one != two || one < 0 : one == two && one >= 0;
        };
        const auto pair_of = [&]() -> std::pair<int, int> {
            for (std::size_t i = 0; i < ranks.size(); ++i)
                for (std::size_t k = i + 1; k < ranks.size(); ++k)
                    if (wanted(ranks[i], ranks[k])) return {ranks[i], ranks[k]};
            return {-1, -1};
        };
        const std::pair<int, int> pair = pair_of();
        if (pair.first >= 0) pairs.push_back(pair);
    }
    return pairs;
}

}  // namespace tpx::cli
