// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/hosts_plan.hpp"

#include "lib/core/error.hpp"
#include "lib/exec/device/move_copies.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace tpx;
using namespace tpx::cli;
namespace fs = std::filesystem;

namespace {

const fs::path spread_checkpoint = "testdata/dcp/fsdp2-tp2";

enum class Files { split, on_both };

/// The plan for two hosts. Host 0 has the files of ranks 0 and 1, and host 1 the others; or both have all.
HostsPlan plan_on_two(const std::string& to, const std::vector<std::string>& ranks = {"", ""},
                      Files where = Files::split) {
    HoldOptions options;
    options.to = to;
    std::vector<StoredFile> files;
    for (const auto& entry : fs::directory_iterator{spread_checkpoint}) {
        const std::string name = entry.path().filename().string();
        std::vector<int> hosts{0, 1};
        if (name.starts_with("__") && where == Files::split) hosts = {name[2] < '2' ? 0 : 1};
        files.push_back({name, entry.file_size(), hosts});
    }
    return plan_hosts(options, spread_checkpoint, files, ranks);
}

std::uint64_t elements_of(const Moves& moves) {
    std::uint64_t sum = 0;
    for (const Move& move : moves) sum += static_cast<std::uint64_t>(volume(move.box));
    return sum;
}

/// Checks that the moves to each piece of the target fill each of its elements once.
void check_covers(const HostsPlan& plan) {
    const formats::Conversion& conversion = plan.hold.job.conversion;
    std::vector<std::vector<Box>> filled(conversion.target_pieces.size());
    for (const Move& move : plan.moves)
        if (!empty(move.box)) filled[move.target].push_back(move.box);
    for (std::size_t piece = 0; piece < filled.size(); ++piece) {
        CAPTURE(piece);
        const Box& box = conversion.target_pieces[piece].box;
        Index elements = 0;
        for (std::size_t k = 0; k < filled[piece].size(); ++k) {
            elements += volume(filled[piece][k]);
            CHECK(contains(box, filled[piece][k]));
            for (std::size_t other = 0; other < k; ++other)
                CHECK(empty(intersect(filled[piece][k], filled[piece][other])));
        }
        CHECK(elements == volume(box));
    }
}

/// GPU K for rank K.
std::map<int, int> one_gpu_each(std::initializer_list<int> ranks) {
    std::map<int, int> gpus;
    for (const int rank : ranks) gpus[rank] = rank;
    return gpus;
}

}  // namespace

TEST_CASE("each host gets its ranks, and only elements that it does not have are carried") {
    const HostsPlan plan = plan_on_two("tp=4");
    CHECK(plan.ranks == std::vector<std::vector<int>>{{0, 1}, {2, 3}});
    CHECK(!plan.carried.empty());
    CHECK(plan.carried.size() < plan.moves.size());
    CHECK(plan.rounds.empty());
    for (const Move& move : plan.carried) {
        const int to = plan.target_files[plan.hold.job.conversion.target_pieces[move.target].file].host;
        CHECK_FALSE(plan.has_source(to, move));
    }
}

TEST_CASE("the busiest sender sends no more than it must, whoever has the files, and equal plans have equal senders") {
    constexpr int hosts = 4;
    constexpr unsigned groups = 7;  // sets of hosts 0, 1 and 2 that can have a file
    std::mt19937 random{5};
    for (int seed = 0; seed < 12; ++seed) {
        CAPTURE(seed);
        std::vector<StoredFile> files;
        for (const auto& entry : fs::directory_iterator{spread_checkpoint}) {
            std::vector<int> holders;  // of hosts 0, 1 and 2: at least one
            const unsigned bits = 1 + static_cast<unsigned>(random() % groups);
            for (int host = 0; host < 3; ++host)
                if ((bits >> host & 1) != 0) holders.push_back(host);
            const std::string name = entry.path().filename().string();
            if (!name.starts_with("__")) holders = {0, 1, 2, 3};
            files.push_back({name, entry.file_size(), holders});
        }
        HoldOptions options;
        options.to = "fsdp=4";
        const std::vector<std::string> ranks(hosts);
        HostsPlan plan = plan_hosts(options, spread_checkpoint, files, ranks);
        place_on_gpus(plan, std::vector<GpuPlaces>(hosts));
        std::vector<std::uint64_t> sent(hosts);
        std::map<std::vector<int>, std::uint64_t> needed;  // bytes, by the hosts that have them
        std::uint64_t largest_row = 0;
        REQUIRE(plan.carried.size() == plan.senders.size());
        for (std::size_t k = 0; k < plan.carried.size(); ++k) {
            const Piece& piece = plan.hold.job.conversion.source_pieces[plan.carried[k].source];
            const Tensor& tensor = plan.hold.job.conversion.source_tensors[piece.tensor];
            const auto bytes = std::uint64_t(volume(plan.carried[k].box) * itemsize(tensor.dtype));
            const std::vector<int>& holders = plan.holders[piece.file];
            REQUIRE(std::ranges::find(holders, plan.senders[k].host) != holders.end());
            sent[std::size_t(plan.senders[k].host)] += bytes;
            needed[holders] += bytes;
            Index longest = 1;
            for (const Interval& side : plan.carried[k].box) longest = std::max(longest, side.size());
            largest_row = std::max(largest_row, bytes / std::uint64_t(longest));
        }
        // By Hall's theorem, the least possible is the largest average of any hosts: what only they have.
        std::uint64_t bound = 0;
        for (unsigned group = 1; group <= groups; ++group) {
            std::uint64_t only_there = 0;
            for (const auto& [holders, bytes] : needed)
                if (std::ranges::all_of(holders, [&](int host) { return (group >> host & 1) != 0; }))
                    only_there += bytes;
            bound = std::max(bound, only_there / unsigned(std::popcount(group)));
        }
        // Moves are split between whole rows, which can add a row for each set of hosts to what a host sends.
        CHECK(*std::ranges::max_element(sent) <= bound + groups * largest_row + 1);
        check_covers(plan);
        HostsPlan again = plan_hosts(options, spread_checkpoint, files, ranks);
        place_on_gpus(again, std::vector<GpuPlaces>(hosts));
        CHECK(again.senders == plan.senders);
    }
}

TEST_CASE("hosts with faster links and NICs send more") {
    std::vector<StoredFile> files;
    for (const auto& entry : fs::directory_iterator{spread_checkpoint}) {
        const std::string name = entry.path().filename().string();
        files.push_back({name, entry.file_size(), name.starts_with("__") ? std::vector{0, 1} : std::vector{0, 1, 2}});
    }
    HoldOptions options;
    options.to = "fsdp=3";
    HostsPlan plan = plan_hosts(options, spread_checkpoint, files, std::vector<std::string>(3));
    const auto sent_by = [&](const HostRates& rates) {
        place_on_gpus(plan, std::vector<GpuPlaces>(3), rates);
        std::array<std::uint64_t, 2> sent{};
        for (std::size_t k = 0; k < plan.carried.size(); ++k) {
            const Piece& piece = plan.hold.job.conversion.source_pieces[plan.carried[k].source];
            sent.at(std::size_t(plan.senders[k].host)) += std::uint64_t(
                volume(plan.carried[k].box) * itemsize(plan.hold.job.conversion.source_tensors[piece.tensor].dtype));
        }
        return sent;
    };
    const auto even = sent_by({});
    const std::uint64_t all = even[0] + even[1];
    CHECK(double(even[0]) == doctest::Approx(double(all) / 2).epsilon(0.02));
    const auto linked = sent_by({{{0, 0, 3}, {0, 0, 0}, {3, 0, 0}}, {}});
    CHECK(linked[0] == 0);
    CHECK(linked[1] == all);
    const auto rated = sent_by({{}, {3e9, 1e9, 1e9}});
    CHECK(double(rated[0]) == doctest::Approx(double(all) * 3 / 4).epsilon(0.02));
}

TEST_CASE("hosts that have all elements carry nothing") {
    HostsPlan plan = plan_on_two("tp=4", {"", ""}, Files::on_both);
    CHECK(plan.carried.empty());
    place_on_gpus(plan, std::vector<GpuPlaces>(2));
    CHECK(plan.rounds.empty());
}

TEST_CASE("the hosts named by --ranks get these ranks, and other ranks are not held") {
    const HostsPlan plan = plan_on_two("tp=4", {"3", "0,2"});
    CHECK(plan.ranks == std::vector<std::vector<int>>{{3}, {0, 2}});
    CHECK(*plan.hold.job.target.held == std::vector<int>{0, 2, 3});
    CHECK_THROWS_AS(plan_on_two("tp=4", {"3", "3"}), Error);
}

TEST_CASE("the shares of all hosts together fill each element once, with GPUs and without") {
    for (const bool has_gpus : {false, true}) {
        CAPTURE(has_gpus);
        HostsPlan plan = plan_on_two("fsdp=3");
        std::vector<GpuPlaces> places(2);
        if (has_gpus) places = {{{}, one_gpu_each({0, 1})}, {{}, one_gpu_each({2})}};
        place_on_gpus(plan, places);
        std::uint64_t read = 0, copied = 0, saved = 0;
        std::set<std::uint32_t> files;
        for (int host = 0; host < 2; ++host) {
            const HostShare share = share_of(plan, host, places[std::size_t(host)]);
            read += elements_of(share.moves);
            copied += share.copied.size();
            CHECK(share.moves.size() == share.targets.size());
            CHECK(std::ranges::is_sorted(share.filled));
            saved += share.saved;
            CHECK(share.saved <= share.bytes);
            for (const std::uint32_t file : share.own)
                if (plan.hold.job.conversion.draft.files[file].path.string().starts_with("rank-"))
                    CHECK(files.insert(file).second);
        }
        CHECK(read + elements_of(plan.carried) == elements_of(plan.moves));
        CHECK((saved > 0) == has_gpus);  // whole tensors that come from the other host
        CHECK(copied == 0);              // the source is not in memory of GPUs
        for (const RoundMessage& message : plan.rounds.at(0)) CHECK((message.to.gpu >= 0) == has_gpus);
    }
}

TEST_CASE("GPU places are the same after conversion to text and back") {
    const MemoryLink far{LinkClass::nvlink, 2}, near{LinkClass::same_gpu, 0};
    const GpuPlaces places{one_gpu_each({0, 5}), one_gpu_each({7}), {{near, far}, {far, near}}, {5}, 12345678};
    const GpuPlaces parsed = parse_gpu_places(to_text(places));
    CHECK(parsed.sources == places.sources);
    CHECK(parsed.targets == places.targets);
    CHECK(parsed.links == places.links);
    CHECK(parsed.cannot_send == places.cannot_send);
    CHECK(parsed.staging == places.staging);
    CHECK(parse_gpu_places("").targets.empty());
}

TEST_CASE("all bytes of all hosts are counted by the links that carry them") {
    HostsPlan plan = plan_on_two("fsdp=3");
    place_on_gpus(plan, std::vector<GpuPlaces>{{{}, one_gpu_each({0, 1})}, {{}, one_gpu_each({2})}});
    const formats::Conversion& conversion = plan.hold.job.conversion;
    std::uint64_t all = 0, carried = 0, found = 0, across = 0;
    const auto bytes_of = [&](const Move& move) {
        const Tensor& tensor = conversion.target_tensors[conversion.target_pieces[move.target].tensor];
        return static_cast<std::uint64_t>(volume(move.box) * itemsize(tensor.dtype));
    };
    for (const Move& move : plan.moves) all += bytes_of(move);
    for (const Move& move : plan.carried) carried += bytes_of(move);
    REQUIRE(plan.links.size() == 2);
    for (const LinkBytes& of_host : plan.links) {
        for (const std::uint64_t bytes : of_host.bytes) found += bytes;
        across += of_host[LinkClass::rail] + of_host[LinkClass::network];
        CHECK(of_host[LinkClass::nvlink] == 0);  // the source is not in memory of GPUs
    }
    CHECK(found == all);
    CHECK(across == carried);
    CHECK(carried > 0);
}
