// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/fixed_slots.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace tpx;

namespace {

/// Two files with two archives each: a run of 10 bytes, 20 of payload, a run of 15, 20 of payload, a run of 5; the
/// slots are at the beginning of runs before a payload, and at the end of runs after one. Then a file without payload.
Draft archives() {
    Draft draft;
    draft.tensors.push_back({"w", DType::u8, {80}});
    for (std::uint32_t file = 0; file < 2; ++file) {
        draft.files.push_back({std::to_string(file), 70});
        std::uint64_t end = 0;
        const auto fix = [&](std::size_t bytes) {
            draft.fixed.push_back({file, end, std::string(bytes, 'x')});
            end += bytes;
        };
        fix(10);
        for (std::uint32_t k = 0; k < 2; ++k) {
            const auto piece = static_cast<std::uint32_t>(draft.pieces.size());
            const Index begin = 40 * file + 20 * k;
            draft.crc_slots.push_back({piece, file, end - 4});
            draft.pieces.push_back({0, file, end, {{begin, begin + 20}}, {1}, -1});
            end += 20;
            draft.crc_slots.push_back({piece, file, end});
            fix(k == 0 ? 15 : 5);
        }
    }
    draft.files.push_back({"metadata", 3});
    draft.fixed.push_back({2, 0, "abc"});
    return draft;
}

}  // namespace

TEST_CASE("slots are found in the runs of archives that follow each other") {
    const FixedSlots slots{archives()};
    REQUIRE(slots.are_apart());
    const std::vector<std::pair<std::size_t, std::size_t>> expected = {{0, 1}, {1, 3}, {3, 4}, {4, 5}, {5, 7}, {7, 8}};
    for (std::size_t k = 0; k < expected.size(); ++k) {
        CHECK(slots.has(k));
        CHECK(slots.begin(k) == expected[k].first);
        CHECK(slots.end(k) == expected[k].second);
    }
    CHECK(!slots.has(6));
}

TEST_CASE("copies next to runs do no harm") {
    Draft draft = archives();
    draft.files[2].size = 13;
    draft.copies.push_back({"elsewhere", 0, 10, 2, 3});
    CHECK(FixedSlots{draft}.are_apart());
    draft.copies.back().offset = 2;
    CHECK(!FixedSlots{draft}.are_apart());
}

TEST_CASE("if anything overlaps a run, or has no slot in a run, no run has slots") {
    const auto are_apart = [](const auto& change) {
        Draft draft = archives();
        change(draft);
        return FixedSlots{draft}.are_apart();
    };
    CHECK(are_apart([](Draft&) {}));
    CHECK(!are_apart([](Draft& draft) { draft.crc_slots.clear(); }));
    CHECK(!are_apart([](Draft& draft) { draft.pieces[1].offset -= 1; }));
    CHECK(!are_apart([](Draft& draft) { draft.pieces[1].offset += 1; }));
    CHECK(!are_apart([](Draft& draft) { draft.fixed[1].bytes += 'x'; }));
    CHECK(!are_apart([](Draft& draft) { draft.fixed[3].offset += 20; }));
    CHECK(!are_apart([](Draft& draft) { std::swap(draft.fixed[0], draft.fixed[1]); }));
    CHECK(!are_apart([](Draft& draft) { draft.pieces.push_back(draft.pieces[0]); }));
    CHECK(!are_apart([](Draft& draft) { draft.crc_slots[2].offset += 2; }));
    CHECK(!are_apart([](Draft& draft) { draft.crc_slots[7].file = 2; }));
    CHECK(!are_apart([](Draft& draft) { draft.crc_slots[7].length = 20; }));
    CHECK(!are_apart([](Draft& draft) { draft.crc_slots.pop_back(), draft.crc_slots.pop_back(); }));
}
