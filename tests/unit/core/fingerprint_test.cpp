// SPDX-License-Identifier: Apache-2.0
#include "lib/core/fingerprint.hpp"

#include <doctest/doctest.h>

using namespace tpx;

TEST_CASE("a fingerprint is the FNV-1a of the values added, texts preceded by their length") {
    CHECK(Fingerprint{}.value() == 0xcbf29ce484222325);
    Fingerprint print;
    print.add("a");
    Fingerprint same;
    same.add(std::uint64_t{1});
    CHECK(print.value() != same.value());
    Fingerprint ab_c;
    ab_c.add("ab");
    ab_c.add("c");
    Fingerprint a_bc;
    a_bc.add("a");
    a_bc.add("bc");
    CHECK(ab_c.value() != a_bc.value());
}

TEST_CASE("the digest of a catalogue depends on everything that identifies a checkpoint") {
    Catalogue good;
    good.files = {{"a.safetensors", 100}, {"b.safetensors", 200}};
    good.tensors = {{"w", DType::bf16, {4, 6}}, {"v", DType::f32, {3}}};
    good.pieces.resize(2);
    good.pieces[0].box = whole(good.tensors[0].shape);
    good.pieces[1].tensor = 1;
    good.pieces[1].box = whole(good.tensors[1].shape);
    const std::uint64_t digest = catalogue_digest(good);

    const auto changes = [&](auto alter) {
        Catalogue other = good;
        alter(other);
        return catalogue_digest(other) != digest;
    };
    CHECK(changes([](Catalogue& c) { c.files[0].path = "c.safetensors"; }));
    CHECK(changes([](Catalogue& c) { c.files[1].size = 201; }));
    CHECK(changes([](Catalogue& c) { c.files.pop_back(); }));
    CHECK(changes([](Catalogue& c) { c.tensors[0].name += "x"; }));
    CHECK(changes([](Catalogue& c) { c.tensors[0].dtype = DType::f16; }));
    CHECK(changes([](Catalogue& c) { c.tensors[0].shape = {6, 4}; }));
    CHECK(changes([](Catalogue& c) { c.pieces[0].box[0].end = 3; }));
    CHECK(changes([](Catalogue& c) { c.pieces[1].file = 1; }));
    CHECK(changes([](Catalogue& c) { std::swap(c.files[0], c.files[1]); }));

    CHECK_FALSE(changes([](Catalogue& c) { c.pieces[0].offset = 8; }));
    CHECK_FALSE(changes([](Catalogue& c) { c.directory = "elsewhere"; }));
}
