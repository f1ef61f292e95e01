// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/safetensors/header.hpp"

#include "formats/safetensors/safetensors.hpp"
#include "lib/core/error.hpp"
#include "tests/support/checkpoints.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace tpx;
using namespace tpx::formats::safetensors;

namespace {

std::string message_of(const std::filesystem::path& path) {
    try {
        formats::open_safetensors(path);
    } catch (const Error& error) {
        return error.what();
    }
    return "accepted";
}

std::string random_name(std::mt19937& random) {
    static const std::array<std::string, 12> letters{"a",  "B",  "0",    ".",    "_",        "\"",
                                                     "\\", "\n", "\x01", "\x7f", "\xc3\xa9", "\xf0\x9f\x98\x80"};
    std::string name;
    for (std::size_t left = random() % 12; left > 0; --left) name += letters[random() % letters.size()];
    return name;
}

/// Entries with different names, and any dtypes and shapes that a file can contain.
std::vector<Entry> random_entries(std::mt19937& random) {
    std::map<std::string, Entry> entries;
    for (std::size_t left = random() % 20; left > 0; --left) {
        Entry entry;
        entry.name = random_name(random);
        do entry.dtype = dtypes()[random() % dtypes().size()].dtype;
        while (info(entry.dtype).safetensors.empty());
        for (std::size_t rank = random() % 4; rank > 0; --rank) entry.shape.push_back(random() % 5);
        if (itemsize(entry.dtype) == 0) entry.shape.push_back(4);  // f4 and f6: four elements are whole bytes
        entries[entry.name] = entry;
    }
    std::vector<Entry> list;
    for (auto& [name, entry] : entries) list.push_back(entry);
    std::ranges::shuffle(list, random);
    return list;
}

}  // namespace

TEST_CASE("headers are read back unchanged, and offsets tile the buffer") {
    std::mt19937 random{1};
    for (int round = 0; round < 300; ++round) {
        std::vector<Entry> entries = random_entries(random);
        const Metadata metadata{{"format", "pt"}, {random_name(random) + "k", random_name(random)}};
        const std::uint64_t buffer = arrange(entries);
        const std::string bytes = write_header(metadata, entries);
        REQUIRE(bytes.size() % 8 == 0);
        const Header header = parse_header(std::string_view(bytes).substr(8), buffer);
        CHECK(header.metadata == metadata);
        REQUIRE(header.entries.size() == entries.size());
        std::uint64_t end = 0;
        for (const Entry& entry : entries) {
            const auto same = std::ranges::find(header.entries, entry.name, &Entry::name);
            REQUIRE(same != header.entries.end());
            CHECK(same->dtype == entry.dtype);
            CHECK(same->shape == entry.shape);
            CHECK(same->begin == entry.begin);
            CHECK(entry.begin == end);
            CHECK(entry.end - entry.begin == payload_size(entry.dtype, entry.shape));
            end = entry.end;
        }
        CHECK(end == buffer);
    }
}

TEST_CASE("a header in any order, with unknown fields and odd white space, is read") {
    const std::string_view json =
        R"({"b" : {"data_offsets":[8,12],"extra":{"deep":[1,[-2.5,null]]},"shape":[ ],"dtype":"F32"},
            "a":{"shape":[2,2],"dtype":"I16","data_offsets":[0,8],"n":-1}, "\u0063":{"dtype":"U8","shape":[0,9],"data_offsets":[8,8]}}   )";
    const Header header = parse_header(json, 12);
    REQUIRE(header.entries.size() == 3);
    CHECK(header.entries[0].name == "a");
    CHECK(header.entries[1].name == "c");
    CHECK(header.entries[2].name == "b");
    CHECK(header.entries[2].shape.empty());
}

TEST_CASE("a header that is too long to be read is not written") {
    std::vector<Entry> entries{{.name = std::string(max_header_bytes, 'x'), .shape = {}}};
    arrange(entries);
    CHECK_THROWS_WITH_AS(write_header({}, entries), doctest::Contains("at most 100000000"), Error);
}

TEST_CASE("each corrupt file is refused in one line with its name and the cause") {
    const std::filesystem::path folder = "testdata/safetensors/corrupt";
    const nlohmann::json cases = nlohmann::json::parse(read_file(folder / "corrupt.json"));
    CHECK(cases.size() > 50);
    for (const nlohmann::json& flaw : cases) {
        const std::filesystem::path path = folder / flaw["file"].get<std::string>();
        const std::string message = message_of(path);
        CAPTURE(path.string());
        CHECK(message.starts_with(path.string() + ": "));
        CHECK_MESSAGE(message.find(flaw["cause"].get<std::string>()) != message.npos, message);
        CHECK(message.find('\n') == message.npos);
        CHECK(message.size() < 400);
    }
}

TEST_CASE("files that the reference library refuses, or should, are refused") {
    const std::filesystem::path root = test::fixtures();
    if (root.empty()) return;
    const std::filesystem::path folder = root / "safetensors/corrupt";
    const nlohmann::json list = nlohmann::json::parse(read_file(folder / "corrupt.json"));
    for (const nlohmann::json& flaw : list["files"]) {
        const std::filesystem::path path = folder / flaw["file"].get<std::string>();
        const std::string message = message_of(path);
        CHECK_MESSAGE(message.starts_with(path.string() + ": "), message);
        CHECK(message.find('\n') == message.npos);
    }
}

TEST_CASE("a truncated file is refused, and changed bytes do no harm") {
    const std::string good = read_file("testdata/safetensors/good/single/model.safetensors");
    test::Scratch scratch;
    const std::filesystem::path path = scratch.path() / "x.safetensors";
    for (std::size_t size = 0; size < good.size(); size += 7) {
        test::write_text(path, std::string_view(good).substr(0, size));
        CHECK(message_of(path) != "accepted");
    }
    std::mt19937 random{2};
    for (int round = 0; round < 2000; ++round) {
        std::string changed = good;
        for (std::size_t left = 1 + random() % 3; left > 0; --left)
            changed[random() % changed.size()] = static_cast<char>(random());
        test::write_text(path, changed);
        message_of(path);
    }
}
