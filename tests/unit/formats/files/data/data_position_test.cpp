// SPDX-License-Identifier: Apache-2.0
#include "formats/files/data/data_position.hpp"

#include "formats/files/data/count_samples.hpp"
#include "formats/files/data/rank_shares.hpp"
#include "lib/core/error.hpp"
#include "lib/core/write_file.hpp"
#include "tests/support/scratch.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace tpx;
using namespace tpx::formats;

namespace {

const std::string whole = "samples = 1000\nglobal_batch = 8\nvirtual_nodes = 4\nseed = 7\n";

/// The error for `text` as data.toml in `folder`; empty if there is none.
std::string fault_of(const std::filesystem::path& folder, const std::string& text) {
    write_file(folder / "data.toml", text);
    try {
        read_data_file(folder / "data.toml");
    } catch (const Error& error) {
        return std::string{error.what()}.substr(folder.string().size() + 1);
    }
    return {};
}

std::string number(std::uint64_t value) {
    std::string bytes;
    for (int k = 0; k < 8; ++k) bytes += static_cast<char>(value >> 8 * k);
    return bytes;
}

std::string index_of(std::uint64_t sequences, std::uint64_t boundaries, std::size_t body) {
    return std::string{"MMIDIDX\0\0", 9} + number(1) + '\4' + number(sequences) + number(boundaries) +
           std::string(body, 'x');
}

}  // namespace

TEST_CASE("a data file gives the samples, their order and the position") {
    const test::Scratch scratch;
    write_file(scratch.path() / "data.toml", whole + "consumed = 2008\n");
    const DataPosition position = read_data_file(scratch.path() / "data.toml");
    CHECK(position.order.samples == 1000);
    CHECK(position.order.seed == 7);
    CHECK(position.batch == 8);
    CHECK(position.virtual_nodes == 4);
    CHECK(position.consumed == 2008);
    write_file(scratch.path() / "data.toml", whole + "epoch = 2\ncursor = 8\n");
    CHECK(read_data_file(scratch.path() / "data.toml").consumed == 2008);
}

TEST_CASE("samples are counted in files: sequences of Megatron datasets, lines of lists") {
    const test::Scratch scratch;
    write_file(scratch.path() / "a.idx", index_of(5, 3, 5 * 12 + 3 * 8));
    write_file(scratch.path() / "b.txt", "x\ny\nz");
    write_file(scratch.path() / "data.toml",
               "global_batch = 8\nvirtual_nodes = 4\nseed = 7\nconsumed = 0\n[[files]]\npath = \"a.idx\"\n"
               "[[files]]\npath = \"b.txt\"\n[[files]]\npath = \"s-000.tar\"\nsamples = 100\n");
    const DataPosition position = read_data_file(scratch.path() / "data.toml");
    CHECK(position.order.samples == 108);
    REQUIRE(position.files.size() == 3);
    CHECK(position.files[0].samples == 5);
    CHECK(position.files[1].samples == 3);
    CHECK(position.files[2].path == "s-000.tar");
    write_file(scratch.path() / "multimodal.idx", index_of(5, 3, 5 * 13 + 3 * 8));
    CHECK(count_samples(scratch.path() / "multimodal.idx") == 5);
    write_file(scratch.path() / "empty.txt", "");
    CHECK(count_samples(scratch.path() / "empty.txt") == 0);
    for (const std::string& damaged : {std::string{"MMIDIDX"}, index_of(5, 3, 0), index_of(~std::uint64_t{0}, 3, 9),
                                       std::string(40, 'x'), index_of(1, 1, 20).replace(9, 1, "\2")}) {
        write_file(scratch.path() / "a.idx", damaged);
        CHECK_THROWS_AS(count_samples(scratch.path() / "a.idx"), Error);
    }
    CHECK_THROWS_AS(count_samples(scratch.path() / "missing.idx"), Error);
}

TEST_CASE("each mistake in a data file is one line") {
    const test::Scratch scratch;
    const auto fault = [&](const std::string& text) { return fault_of(scratch.path(), text); };
    CHECK(fault(whole + "consumed = 0\n").empty());
    CHECK(fault("samples = ").starts_with("data.toml:1: "));
    CHECK(fault(whole) == "data.toml: consumed is missing, or epoch and cursor");
    CHECK(fault(whole + "epoch = 1\n") == "data.toml: consumed is missing, or epoch and cursor");
    CHECK(fault(whole + "consumed = 8\nepoch = 0\n") ==
          "data.toml:5: consumed: conflicts with epoch and cursor; use either consumed or both of these");
    CHECK(fault(whole + "consumed = 9\n") ==
          "data.toml:5: 9 consumed samples are not a multiple of the global batch of 8");
    CHECK(fault(whole + "epoch = 0\ncursor = 1000\n") ==
          "data.toml:6: cursor: a whole number from 0 to 999 was expected");
    CHECK(fault(whole + "consumed = 0\nshuffle = true\n") ==
          "data.toml:6: unknown key 'shuffle'; valid keys: samples, files, global_batch, seed, virtual_nodes, "
          "consumed, epoch, cursor");
    CHECK(fault("global_batch = 8\nseed = 1\nconsumed = 0\n") == "data.toml: samples is missing, or files");
    CHECK(fault("samples = 9\nseed = 1\nconsumed = 0\n") == "data.toml: global_batch is missing");
    CHECK(fault("samples = 9\nglobal_batch = 1\nconsumed = 0\n") == "data.toml: seed is missing");
    CHECK(fault("samples = 0\nglobal_batch = 1\nseed = 1\nconsumed = 0\n") ==
          "data.toml:1: samples: a whole number from 1 to 9007199254740992 was expected");
    CHECK(fault("samples = 9\nglobal_batch = 2\nvirtual_nodes = 4\nseed = 1\nconsumed = 0\n") ==
          "data.toml:3: 4 virtual nodes cannot share a global batch of 2");
    const std::string counted = "global_batch = 8\nseed = 1\nconsumed = 0\n";
    CHECK(fault(counted + "files = []\n") == "data.toml:4: files: is empty");
    CHECK(fault(counted + "files = [1]\n") == "data.toml:4: files: a table with path and samples was expected");
    CHECK(fault(counted + "[[files]]\nsamples = 3\n") == "data.toml:4: files: path is missing");
    CHECK(fault(counted + "samples = 3\n[[files]]\npath = \"a\"\nsamples = 3\n") ==
          "data.toml:4: samples: conflicts with files, which have their own samples; use only one of these");
    CHECK(fault(counted + "[[files]]\npath = \"a.tar\"\n")
              .ends_with("only the samples of .idx and .txt files are counted; add samples = N"));
    CHECK(fault(counted + "[[files]]\npath = \"a.tar\"\nsize = 3\n") ==
          "data.toml:6: unknown key 'size'; valid keys: path, samples");
}

TEST_CASE("a data position is read back unchanged, and invalid ones are refused") {
    const test::Scratch scratch;
    CHECK_FALSE(read_data_position(scratch.path()));
    const DataPosition position{{1000, 7}, {{"a.idx", 1000}}, 8, 4, 2008};
    const std::string text = data_position_text(position, {.tp = 2, .dp = 3, .vn = 4});
    write_file(scratch.path() / "tpx.data.json", text);
    CHECK(to_json(*read_data_position(scratch.path())) == to_json(position));
    const auto ranks = nlohmann::json::parse(text).at("ranks");
    REQUIRE(ranks.size() == 6);
    CHECK(ranks[3].at("dp_rank") == 1);
    CHECK(ranks[3].at("virtual_nodes").size() == 1);
    CHECK(ranks[3].at("next_positions") == nlohmann::json{2012, 2014});
    for (const std::string& other : {std::string{"{}"}, std::string{"["}, text.substr(0, text.size() / 2)}) {
        write_file(scratch.path() / "tpx.data.json", other);
        CHECK_THROWS_AS(read_data_position(scratch.path()), Error);
    }
}

TEST_CASE("law: over random changes of dp and layout, each sample occurs once in an epoch, in the same batches") {
    std::mt19937_64 random{5};
    for (int round = 0; round < 40; ++round) {
        const int nodes = 1 + static_cast<int>(random() % 12);
        DataPosition position{.order = {1 + static_cast<Index>(random() % 500), random()},
                              .batch = nodes + static_cast<Index>(random() % 30),
                              .virtual_nodes = nodes};
        std::vector<int> visits(static_cast<std::size_t>(position.order.samples));
        for (Index epochs = 3, first = 0; position.consumed < epochs * position.order.samples;
             first = position.consumed) {
            const Layout layout{.tp = 1 + static_cast<int>(random() % 2),
                                .dp = 1 + static_cast<int>(random() % nodes),
                                .vn = nodes,
                                .order = random() % 2 == 0 ? "tp-cp-ep-dp-pp" : "dp-tp-cp-ep-pp"};
            const auto ranks = nlohmann::json::parse(data_position_text(position, layout)).at("ranks");
            std::vector<Index> batch;
            for (const auto& rank : ranks) {
                if (coordinates(layout, rank.at("rank")).tp != 0) continue;  // TP ranks train on the same samples
                for (const auto& node : rank.at("virtual_nodes"))
                    for (Index k = node.at("samples")[0]; k < node.at("samples")[1]; ++k) batch.push_back(first + k);
            }
            std::ranges::sort(batch);
            REQUIRE(static_cast<Index>(batch.size()) == position.batch);
            REQUIRE(batch.front() == first);
            for (Index place : batch)
                if (place < epochs * position.order.samples)
                    ++visits[static_cast<std::size_t>(position.order.sample_at(place))];
            position.consumed += position.batch;
        }
        CHECK(std::ranges::all_of(visits, [](int count) { return count == 3; }));
    }
}
