// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/file_crcs.hpp"

#include "formats/files/store/manifest.hpp"
#include "lib/core/crc.hpp"
#include "lib/core/parallel_for.hpp"
#include "tests/support/checkpoints.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

using namespace tpx;

TEST_CASE("the checksum of a file covers its data as written and the other bytes as read") {
    std::mt19937_64 random{7};
    const test::Scratch scratch;
    for (const std::size_t size : {std::size_t{1}, std::size_t{5000}, std::size_t{3} << 20}) {
        std::string file(size, '\0');
        for (char& byte : file) byte = static_cast<char>(random());
        test::write_text(scratch.path() / "file", file);
        const auto bytes = std::as_bytes(std::span{file});

        // Ranges of data with gaps between them, and each of them in fragments of any order.
        std::vector<Interval> data;
        std::vector<std::pair<std::size_t, std::size_t>> fragments;
        for (std::size_t at = random() % size; at < size;) {
            const std::size_t end = std::min(size, at + 1 + random() % (size / 3 + 1));
            data.push_back({static_cast<Index>(at), static_cast<Index>(end)});
            for (std::size_t next; at < end; at = next) {
                next = std::min(end, at + 1 + random() % (size / 5 + 1));
                fragments.emplace_back(at, next);
            }
            at = end + 1 + random() % (size / 4 + 1);
        }
        std::ranges::shuffle(fragments, random);

        Draft draft;
        draft.files = {{"other", 9}, {"file", size}};
        FileCrcs crcs{draft};
        parallel_for(fragments.size(), 4, [&](std::size_t k) {
            const auto [begin, end] = fragments[k];
            crcs.add(1, begin, end - begin, Crc64::of(bytes.subspan(begin, end - begin)));
        });
        crcs.combine(mpi::Comm{});
        CHECK(formats::crc_of_file(scratch.path() / "file", size, data, crcs.value(1)) == Crc64::of(bytes));
        CHECK(formats::crc_of_file(scratch.path() / "file", size) == Crc64::of(bytes));
        CHECK(crcs.value(0) == 0);
    }
}
