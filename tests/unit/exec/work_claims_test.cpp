// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/work_claims.hpp"

#include <doctest/doctest.h>

#include <random>

using namespace tpx;

TEST_CASE("all ranks see the same parts, which together are the job, whoever asks first") {
    std::mt19937_64 random{3};
    for (int round = 0; round < 500; ++round) {
        const std::uint64_t total = random() % 5000, least = 1 + random() % 700;
        const auto ranks = 1 + random() % 6;
        std::vector<WorkClaims> claims;
        for (std::size_t rank = 0; rank < ranks; ++rank) claims.emplace_back(total, int(ranks), int(rank), least);
        std::vector<std::uint64_t> asked(ranks);
        ByteRanges dealt;
        while (dealt.count() < total) {
            for (std::uint64_t more = 1 + random() % ranks; more > 0; --more) ++asked[random() % ranks];
            for (WorkClaims& one : claims) {
                one.process_requests(asked);
                while (const auto part = one.next()) {
                    CHECK(dealt.count_before(part->end) == dealt.count_before(part->begin));
                    if (part->end < total) CHECK(part->end - part->begin >= least);
                    dealt.add(*part);
                }
            }
        }
        CHECK(dealt.count() == total);
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            ++asked[rank];
            claims[rank].process_requests(asked);
            CHECK(claims[rank].next() == ByteRange{total, total});
        }
    }
}

TEST_CASE("a rank that stops asking delays the others by at most its last part") {
    constexpr std::uint64_t total = 1'000'000'000, least = 1'000'000;
    WorkClaims slow{total, 2, 0, least}, fast{total, 2, 1, least};
    std::vector<std::uint64_t> asked{1, 1};
    std::uint64_t done = 0;
    for (;; ++asked[1]) {
        fast.process_requests(asked);
        const ByteRange part = *fast.next();
        if (part.begin == part.end) break;
        done += part.end - part.begin;
    }
    slow.process_requests(asked);
    CHECK(done == total - slow.next()->end);
    CHECK(done >= total / 2);
}
