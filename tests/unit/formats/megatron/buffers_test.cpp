// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/buffers.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <random>

namespace tpx::formats::megatron {
namespace {

Index up(Index value, Index multiple) { return (value + multiple - 1) / multiple * multiple; }

/// The same rules, bucket by bucket: parameters are put into buckets from the last to the first, and buckets follow one
/// another.
BufferLayout by_buckets(const std::vector<BufferParameter>& parameters, std::optional<Index> limit) {
    struct Bucket {
        std::vector<std::pair<std::size_t, Index>> members;  // parameter and where it begins
        Index end = 0;
    };
    std::vector<Bucket> buckets(1);
    for (std::size_t k = parameters.size(); k-- > 0;) {
        Bucket* open = &buckets.back();
        if (parameters[k].has_own_bucket && !open->members.empty()) {
            open->end = up(open->end, 64);
            open = &buckets.emplace_back();
        }
        const Index begin = up(open->end, 64);
        open->members.emplace_back(k, begin);
        open->end = begin + parameters[k].elements;
        if (parameters[k].has_own_bucket || (limit && open->end >= *limit)) buckets.emplace_back();
    }
    BufferLayout layout{std::vector<Index>(parameters.size()), 0};
    for (const Bucket& bucket : buckets) {
        for (const auto& [k, begin] : bucket.members) layout.begin[k] = layout.size + begin;
        layout.size += bucket.end;
    }
    return layout;
}

}  // namespace

TEST_CASE("parameters are stored from the last to the first, each at a multiple of 64 elements") {
    const std::vector<BufferParameter> parameters{{10}, {100}, {64}};
    const BufferLayout layout = lay_out_buffer(parameters, std::nullopt, 2);
    CHECK(layout.begin == std::vector<Index>{192, 64, 0});
    CHECK(layout.size == 202);
}

TEST_CASE("a full bucket ends without padding, and the next one follows directly") {
    const std::vector<BufferParameter> parameters{{10}, {100}, {70}};
    CHECK(lay_out_buffer(parameters, 60, 2).begin == std::vector<Index>{170, 70, 0});
    CHECK(lay_out_buffer(parameters, 60, 2).size == 180);
}

TEST_CASE("a shared embedding has its own bucket; the gap before it belongs to the previous bucket") {
    const std::vector<BufferParameter> parameters{{10}, {5, true}, {70}};
    const BufferLayout layout = lay_out_buffer(parameters, std::nullopt, 4);
    CHECK(layout.begin == std::vector<Index>{133, 128, 0});
    CHECK(layout.size == 143);
}

TEST_CASE("random buffers have the same layout as bucket by bucket, whatever the number of ranks") {
    std::mt19937 random{7};
    for (int round = 0; round < 500; ++round) {
        std::vector<BufferParameter> parameters(random() % 12);
        for (BufferParameter& parameter : parameters)
            parameter = {static_cast<Index>(1 + random() % 300), random() % 5 == 0};
        const auto limit = random() % 3 == 0 ? std::nullopt : std::optional<Index>{1 + random() % 500};
        const BufferLayout want = by_buckets(parameters, limit);
        for (int ranks : {1, 2, 3, 8, 48}) {
            const BufferLayout layout = lay_out_buffer(parameters, limit, ranks);
            CHECK(layout.begin == want.begin);
            CHECK(layout.size == want.size);
        }
    }
}

TEST_CASE("args determine the bucket size, and whether it is unlimited") {
    const Layout layout{.pp = 2, .dp = 64};
    Config args{{"overlap_grad_reduce", true}};
    CHECK(bucket_size(args, layout, 0, 0) == 64'000'000);
    CHECK(!bucket_size(args, layout, 1, 0));
    CHECK(!bucket_size(args, layout, 0, 1));
    args["data_parallel_size"] = std::int64_t{2};
    CHECK(bucket_size(args, layout, 0, 0) == 40'000'000);
    args["ddp_bucket_size"] = std::int64_t{5000};
    CHECK(bucket_size(args, layout, 0, 0) == 5000);
    args["overlap_grad_reduce"] = false;
    CHECK(!bucket_size(args, layout, 0, 0));
}

}  // namespace tpx::formats::megatron
