// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/read_digests.hpp"

#include "lib/core/file.hpp"
#include "lib/exec/execute.hpp"
#include "tests/mpi/random_job.hpp"
#include "tests/mpi/scratch.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>

using namespace tpx;

namespace {

Catalogue as_tensors(const test::Scratch& scratch, const std::vector<std::string>& content) {
    Catalogue files{.directory = scratch / ""};
    for (std::size_t k = 0; k < content.size(); ++k) {
        scratch.write("file" + std::to_string(k), content[k]);
        files.files.push_back({"file" + std::to_string(k), content[k].size()});
        files.tensors.push_back({files.files[k].path.string(), DType::u8, {Index(content[k].size())}});
    }
    return files;
}

void check(const std::vector<Digest>& found, const std::vector<std::string>& content) {
    REQUIRE(found.size() == content.size());
    for (std::size_t k = 0; k < content.size(); ++k) {
        Digest expected;
        add(expected, Shape{Index(content[k].size())}, 1, Box{{0, Index(content[k].size())}},
            std::as_bytes(std::span{content[k]}).data());
        CHECK(found[k] == expected);
    }
}

std::string random_bytes(test::Random& random, std::size_t size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = char(random());
    return bytes;
}

}  // namespace

TEST_CASE("digests of files do not depend on what was read before, or how often") {
    const mpi::Comm world = mpi::Comm::world();
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        CAPTURE(seed);
        test::Random random{seed};
        const std::vector<std::string> content = {random_bytes(random, 100'000), "", random_bytes(random, 1)};
        const test::Scratch scratch{world};
        const Catalogue files = as_tensors(scratch, content);
        ReadDigests read{world, files};
        CHECK(read.number_of(scratch / "file2") == 2);
        CHECK(!read.number_of(scratch / "file3"));
        test::Random own{seed * 100 + std::uint64_t(world.rank())};
        for (std::uint64_t k = 0; k < seed * 5; ++k) {
            const std::size_t file = own() % content.size();
            const std::size_t begin = own() % (content[file].size() + 1);
            const std::size_t size = std::min(own() % 40'000, content[file].size() - begin);
            read.add(std::uint32_t(file), begin, std::as_bytes(std::span{content[file]}).subspan(begin, size));
        }
        check(read.complete({}), content);
    }
}

TEST_CASE("only bytes that were not read are read for the digests, but all of them if edges are too many") {
    const mpi::Comm world = mpi::Comm::world();
    test::Random random{1};
    for (const std::size_t stride : {std::size_t{2}, std::size_t{1}}) {
        const std::vector<std::string> content = {random_bytes(random, 1'500'000)};
        const test::Scratch scratch{world};
        const Catalogue files = as_tensors(scratch, content);
        ReadDigests read{world, files};
        const auto bytes = std::as_bytes(std::span{content[0]});
        const auto ranks = std::size_t(world.size()), rank = std::size_t(world.rank());
        for (std::size_t k = rank * stride; k + 1000 < bytes.size(); k += ranks * stride)
            read.add(0, k, bytes.subspan(k, 1));
        std::atomic<std::uint64_t> from_disk{0};
        const ReadHook hook{[&](const Fd&, std::uint64_t, std::span<std::byte> into) {
            from_disk += into.size();
            return false;
        }};
        check(read.complete({}), content);
        std::uint64_t all = from_disk;
        mpi::all_sum(world, std::span{&all, 1});
        if (ranks == 1 && stride == 1) CHECK(all == 1000);
        CHECK(all >= 1000);
    }
}

TEST_CASE("what execute() reads need not be read again") {
    const mpi::Comm world = mpi::Comm::world();
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
        CAPTURE(seed);
        test::Random random{seed};
        const test::RandomJob job = test::random_job(random, seed % 5 == 0);
        const test::Scratch scratch{world};
        const Catalogue files = as_tensors(scratch, job.content);
        std::vector<SourceFile> sources;
        for (const FileEntry& file : files.files) sources.push_back({files.directory / file.path});
        ReadDigests read{world, files};
        ExecOptions options;
        options.memory = std::uint64_t{2} << 20;
        options.read_digests = &read;
        execute(world, job.moves, job.source.side(), sources, job.target.side(), job.draft, scratch / "new", options);
        check(read.complete(options), job.content);
    }
}
