// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/journal.hpp"

#include "lib/core/file.hpp"
#include "tests/support/scratch_folder.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <random>

using namespace tpx;
namespace fs = std::filesystem;

namespace {

constexpr JournalHeader header{0x1234, 1000, 64, 16};

JournalEntry entry(std::uint64_t begin, std::uint64_t end) { return {{begin, end}, begin * 77 + end}; }

void overwrite(const fs::path& file, const std::string& bytes) {
    std::ofstream{file, std::ios::binary | std::ios::trunc} << bytes;
}

}  // namespace

TEST_CASE("the entries of all ranks and runs are read in order; of overlapping entries, one is kept") {
    const test::ScratchFolder scratch;
    {
        Journal second{{scratch.path(), header.request, 0}, 1, header};
        second.add(entry(500, 600));
        Journal first{{scratch.path(), header.request, 0}, 0, header};
        first.add(entry(0, 100));
        first.add(entry(100, 150));
        Journal later{{scratch.path(), header.request, 1}, 0, header};
        later.add(entry(120, 200));
        later.add(entry(600, 1000));
    }
    const auto journals = read_journals(scratch.path());
    REQUIRE(journals);
    CHECK(journals->header == header);
    CHECK(next_attempt(scratch.path()) == 2);
    CHECK(journals->entries == std::vector{entry(0, 100), entry(100, 150), entry(500, 600), entry(600, 1000)});
    CHECK(journals->bytes() == 650);
}

TEST_CASE("a folder without journals, or with journals without a header, has no entries") {
    const test::ScratchFolder scratch;
    CHECK_FALSE(read_journals(scratch.path()));
    CHECK(next_attempt(scratch.path()) == 1);
    fs::create_directory(scratch.path() / journal_folder);
    overwrite(scratch.path() / journal_folder / "journal.0.0", "torn");
    overwrite(scratch.path() / journal_folder / "journal.0.1", std::string(4096, '\0'));
    overwrite(scratch.path() / journal_folder / "notes", "somebody else's");
    CHECK_FALSE(read_journals(scratch.path()));
}

TEST_CASE("a journal that is truncated or damaged anywhere gives only the intact entries") {
    const test::ScratchFolder scratch;
    std::vector<JournalEntry> all;
    {
        Journal journal{{scratch.path(), header.request, 0}, 0, header};
        for (std::uint64_t k = 0; k < 10; ++k) {
            all.push_back(entry(100 * k, 100 * k + 90));
            journal.add(all.back());
        }
    }
    const fs::path file = scratch.path() / journal_folder / "journal.0.0";
    const std::string whole = read_file(file);
    std::mt19937_64 random{2};
    for (std::size_t size = 0; size <= whole.size(); ++size) {
        overwrite(file, whole.substr(0, size) + std::string(random() % 100, '\0'));
        const auto journals = read_journals(scratch.path());
        CHECK(journals.has_value() == (size >= 64));
        if (journals) CHECK(journals->entries == std::vector(all.begin(), all.begin() + std::ptrdiff_t(size / 32 - 2)));
    }
    for (int round = 0; round < 1000; ++round) {
        std::string damaged = whole;
        const std::size_t at = 64 + random() % (whole.size() - 64);
        damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8));
        overwrite(file, damaged);
        std::vector<JournalEntry> expected = all;
        expected.erase(expected.begin() + std::ptrdiff_t(at / 32 - 2));
        CHECK(read_journals(scratch.path())->entries == expected);
    }
}

TEST_CASE("entries of another request are ignored") {
    const test::ScratchFolder scratch;
    JournalHeader other = header;
    other.request = 99;
    { Journal{{scratch.path(), 99, 0}, 0, other}.add(entry(0, 100)); }
    { Journal{{scratch.path(), header.request, 1}, 0, header}.add(entry(200, 300)); }
    CHECK(read_journals(scratch.path())->entries == std::vector{entry(200, 300)});
}
