// SPDX-License-Identifier: Apache-2.0
#include "lib/cluster/fair_shares.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <numeric>
#include <random>
#include <sstream>

namespace tpx {
namespace {

std::vector<std::string> split(const std::string& text, char sign) {
    std::vector<std::string> parts;
    std::stringstream stream{text};
    for (std::string part; std::getline(stream, part, sign);) parts.push_back(part);
    return parts;
}

TEST_CASE("shares are those that VirtualFlow's scheduler logged") {
    std::ifstream file{"testdata/simulate/virtualflow-shares.csv"};
    std::string line;
    std::getline(file, line);
    int count = 0;
    for (; std::getline(file, line); ++count) {
        CAPTURE(line);
        const auto columns = split(line, ',');
        std::vector<FairClaim> claims;
        std::vector<int> expected;
        for (const std::string& job : split(columns[0], ';')) {
            const auto words = split(job, ':');
            claims.push_back({std::stod(words[1]), std::stoi(words[2])});
        }
        for (const std::string& job : split(columns[1], ';')) expected.push_back(std::stoi(split(job, ':')[1]));
        CHECK(weighted_fair_shares(claims, 8) == expected);
    }
    CHECK(count == 27);
}

TEST_CASE("shares fit, are powers of two or demands, and grow with priority") {
    std::mt19937 random{5};
    for (int round = 0; round < 2000; ++round) {
        const int gpus = 1 + static_cast<int>(random() % 64);
        std::vector<FairClaim> claims(1 + random() % static_cast<unsigned>(gpus));
        for (FairClaim& claim : claims) claim = {std::vector<double>{1, 5, 10}[random() % 3], 1 << random() % 6};
        const std::vector<int> shares = weighted_fair_shares(claims, gpus);
        CHECK(std::accumulate(shares.begin(), shares.end(), 0) <= gpus);
        for (std::size_t i = 0; i < claims.size(); ++i) {
            CHECK(shares[i] >= 1);
            CHECK(shares[i] <= claims[i].demand);
            for (std::size_t j = 0; j < claims.size(); ++j)
                if (claims[i].priority > claims[j].priority && claims[i].demand >= claims[j].demand)
                    CHECK(shares[i] >= shares[j]);
        }
    }
}

}  // namespace
}  // namespace tpx
