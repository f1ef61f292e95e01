// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/payload_crcs.hpp"

#include <doctest/doctest.h>
#include <zlib.h>

#include <random>
#include <string>
#include <vector>

using namespace tpx;

namespace {

std::uint32_t by_zlib(std::span<const std::byte> bytes) {
    return std::uint32_t(crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), uInt(bytes.size())));
}

}  // namespace

TEST_CASE("fragments in any order give each payload its zip checksum") {
    std::mt19937_64 random{1};
    std::vector<std::byte> file(10000);
    for (std::byte& byte : file) byte = static_cast<std::byte>(random());

    // Payloads with gaps between them, one empty, one without a slot; slots in another order.
    Draft draft;
    draft.files = {{"a", 10000}, {"b", 10000}};
    const std::vector<std::pair<std::uint64_t, Index>> extents = {
        {0, 64}, {100, 5000}, {5100, 0}, {5100, 900}, {7000, 3000}};
    for (const auto& [offset, length] : extents) {
        const auto k = std::uint32_t(draft.pieces.size());
        draft.tensors.push_back({std::to_string(k), DType::u8, {length}});
        draft.pieces.push_back({k, 1, offset, {{0, length}}, {1}, -1});
    }
    draft.crc_slots = {{4, 0, 0}, {0, 0, 4}, {2, 0, 8}, {1, 0, 12}, {0, 1, 16, 6200, 700}};
    PayloadCrcs crcs{draft};

    std::vector<std::pair<std::size_t, std::size_t>> parts;
    for (std::size_t begin = 0; begin < file.size();) {
        const std::size_t size = std::min<std::size_t>(file.size() - begin, 1 + random() % 700);
        parts.emplace_back(begin, size);
        begin += size;
    }
    std::ranges::shuffle(parts, random);
    for (const auto& [begin, size] : parts) {
        crcs.add(1, begin, std::span{file}.subspan(begin, size));
        crcs.add(0, begin, std::span{file}.subspan(begin, size));  // contains no payload
    }
    crcs.combine(mpi::Comm{});
    for (std::size_t slot = 0; slot < draft.crc_slots.size(); ++slot) {
        auto [offset, length] = extents[draft.crc_slots[slot].piece];
        if (draft.crc_slots[slot].length > 0) {
            offset = draft.crc_slots[slot].begin;
            length = static_cast<Index>(draft.crc_slots[slot].length);
        }
        CHECK(crcs.value(slot) == by_zlib(std::span{file}.subspan(offset, std::size_t(length))));
    }
}

TEST_CASE("bytes that were never written count as zeros") {
    Draft draft;
    draft.files = {{"a", 100}};
    draft.tensors = {{"w", DType::f32, {25}}};
    draft.pieces = {{0, 0, 0, {{0, 25}}, {1}, -1}};
    draft.crc_slots = {{0, 0, 0}};
    const PayloadCrcs crcs{draft};
    CHECK(crcs.value(0) == by_zlib(std::vector<std::byte>(100)));
}
