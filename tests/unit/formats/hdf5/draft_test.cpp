// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/hdf5/tree.hpp"
#include "formats/hdf5/hdf5.hpp"
#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"
#include "tests/support/chunks.hpp"

#include <doctest/doctest.h>

#include <array>
#include <random>
#include <set>

namespace tpx::formats {
namespace {

using Bytes = std::map<std::string, std::string>;

Bytes random_bytes(std::span<const Tensor> tensors, std::mt19937_64& random) {
    Bytes bytes;
    for (const Tensor& tensor : tensors) {
        std::string& of_tensor = bytes[tensor.name];
        of_tensor.resize(static_cast<std::size_t>(volume(tensor.shape) * itemsize(tensor.dtype)));
        for (char& byte : of_tensor) byte = static_cast<char>(tensor.dtype == DType::boolean ? random() % 2 : random());
    }
    return bytes;
}

constexpr std::array dtypes_to_try{
    DType::boolean, DType::u8,   DType::i8,      DType::u16,     DType::i16,     DType::u32,   DType::i32,
    DType::u64,     DType::i64,  DType::f16,     DType::bf16,    DType::f32,     DType::f64,   DType::c32,
    DType::c64,     DType::c128, DType::f8_e4m3, DType::f8_e5m2, DType::f8_e8m0, DType::f4_x2, DType::f8_e4m3fnuz};

}  // namespace

TEST_CASE("any names, dtypes and splits are read back from HDF5") {
    const std::vector<std::string> names = {
        "a",   "a.b",  "a.b.c", "x/y",         "x.y", "..",          "",       "deep.er.and.deeper", "w.0",
        "w.1", "w.10", "w.2",   "p.q/exp_avg", "p.q", "exp_avg.p.q", "e\u00e4"};
    std::mt19937_64 random{5};
    for (int round = 0; round < 40; ++round) {
        const int ranks = 1 + round % 4;
        Checkpoint source;
        std::vector<Tensor>& tensors = source.catalogue.tensors;
        for (const std::string& name : names) {
            if (random() % 4 == 0) continue;
            Shape shape;
            for (std::uint64_t k = random() % 4; k > 0; --k) shape.push_back(static_cast<Index>(random() % 7));
            tensors.push_back({name, dtypes_to_try[random() % dtypes_to_try.size()], shape});
            source.roles.push_back(name == "p.q/exp_avg" ? Role::exp_avg : Role::weight);
        }
        source.iteration = round;
        const Bytes bytes = random_bytes(tensors, random);
        Content content = test::cut_content(tensors, ranks, round % 2);
        content.source = &source;
        const test::Scratch scratch;
        test::write_draft(draft_hdf5(content), bytes, scratch.path());
        const Checkpoint again = open_hdf5(scratch.path());
        check_no_holes(again.catalogue);
        CHECK(again.iteration == round);
        CHECK(test::describe(again.catalogue.tensors, test::assemble(again.catalogue)) ==
              test::describe(tensors, bytes));
        for (std::size_t t = 0; t < again.roles.size(); ++t)
            CHECK(again.roles[t] == (again.catalogue.tensors[t].name == "p.q/exp_avg" ? Role::exp_avg : Role::weight));
        std::set<std::int32_t> writers;
        for (const Piece& piece : again.catalogue.pieces) writers.insert(piece.rank);
        CHECK((writers.empty() || *writers.rbegin() < ranks));
    }
}

TEST_CASE("a missing file of a rank is noticed") {
    Checkpoint source;
    source.catalogue.tensors = {{"w", DType::f32, {8, 3}}};
    std::mt19937_64 random{1};
    const Bytes bytes = random_bytes(source.catalogue.tensors, random);
    Content content = test::cut_content(source.catalogue.tensors, 3, 0);
    content.source = &source;
    const test::Scratch scratch;
    test::write_draft(draft_hdf5(content), bytes, scratch.path());
    std::filesystem::remove(scratch.path() / "rank_00001.h5");
    CHECK_THROWS_WITH_AS(open_hdf5(scratch.path()),
                         (scratch.path().string() + ": of 3 ranks, the file of rank 1 is missing").c_str(), Error);
    CHECK_THROWS_AS(open_hdf5(scratch.path() / "rank_00000.h5"), Error);
}

TEST_CASE("attributes of an HDF5 source are kept") {
    const Checkpoint source = open_hdf5("testdata/hdf5/good/types.h5");
    Content content = test::cut_content(source.catalogue.tensors, 2, 0);
    content.source = &source;
    const test::Scratch scratch;
    test::write_draft(draft_hdf5(content), test::assemble(source.catalogue), scratch.path());
    const Checkpoint again = open_hdf5(scratch.path());
    CHECK(*hdf5::text_of(again.tree->groups.at(0).attributes, "config") ==
          *hdf5::text_of(source.tree->groups.at(0).attributes, "config"));
    CHECK(again.iteration == 12);
}

}  // namespace tpx::formats
