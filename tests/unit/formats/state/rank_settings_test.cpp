// SPDX-License-Identifier: Apache-2.0
#include "formats/state/rank_settings.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace tpx;
using formats::RankSettings;
using torch::Document;
using torch::Entry;
using torch::Value;

namespace {

Value dict(Document& document, std::initializer_list<std::pair<const char*, Value>> entries) {
    std::vector<Entry> list;
    for (const auto& [key, value] : entries) list.push_back({document.string(key), value});
    return document.dict(list);
}

}  // namespace

TEST_CASE("files of ranks with different records are named (S1, S2)") {
    Document document;
    RankSettings settings;
    const Value ten = dict(document, {{"step", document.integer(10)}, {"lr", document.real(0.5)}});
    const Value eleven = dict(document, {{"step", document.integer(11)}, {"lr", document.real(0.5)}});
    settings.add("a.pt", "state", ten);
    settings.add("b.pt", "state", ten);
    settings.add("b.pt", "other", eleven);
    CHECK_THROWS_WITH_AS(settings.add("c.pt", "state", eleven),
                         "c.pt: 'state.step' is 11, but 10 in a.pt; the files are of different iterations or runs",
                         Error);
}

TEST_CASE("lists are compared item by item, enum members by value, and values that are not scalars not at all") {
    Document document;
    const auto member = [&](std::int64_t value) {
        return document.object(document.global("module", "Stage"), document.tuple(std::array{document.integer(value)}));
    };
    const auto list = [&](std::int64_t value) { return document.list(std::array{document.integer(value)}); };
    RankSettings settings;
    settings.add("a.pt", "stage", member(1));
    CHECK_NOTHROW(settings.add("b.pt", "stage", member(1)));
    CHECK_THROWS_AS(settings.add("b.pt", "stage", member(2)), Error);
    settings.add("a.pt", "list", list(1));
    CHECK_THROWS_AS(settings.add("b.pt", "list", list(2)), Error);
    settings.add("a.pt", "bytes", document.bytes("a"));
    CHECK_NOTHROW(settings.add("b.pt", "bytes", document.bytes("b")));
}

TEST_CASE("optimizer groups are compared by their multipliers, because a rank may lack one") {
    Document document;
    const auto group = [&](double decay, double lr) {
        return dict(document, {{"wd_mult", document.real(decay)}, {"lr", document.real(lr)}});
    };
    RankSettings settings;
    settings.add_groups("a.pt", "groups", document.list(std::array{group(1, 0.1), group(0, 0.2)}));
    CHECK_NOTHROW(settings.add_groups("b.pt", "groups", document.list(std::array{group(0, 0.2)})));
    CHECK_THROWS_AS(settings.add_groups("c.pt", "groups", document.list(std::array{group(0, 0.1)})), Error);
}

TEST_CASE("a setting that one file lacks is named, whichever file it is") {
    Document document;
    const Value both = dict(document, {{"lr", document.real(0.5)}, {"eps", document.real(0.25)}});
    const Value one = dict(document, {{"lr", document.real(0.5)}});
    RankSettings settings;
    settings.add("a.pt", "groups", both);
    CHECK_THROWS_WITH_AS(
        settings.add("b.pt", "groups", one),
        "b.pt: 'groups.eps' is missing, but 0.25 in a.pt; the files are of different iterations or runs", Error);
    RankSettings reversed;
    reversed.add("a.pt", "groups", one);
    CHECK_THROWS_WITH_AS(
        reversed.add("b.pt", "groups", both),
        "b.pt: 'groups.eps' is 0.25, but missing in a.pt; the files are of different iterations or runs", Error);
    CHECK_THROWS_AS(reversed.add("c.pt", "groups", std::nullopt), Error);
    // None counts as a missing value.
    const Value none = dict(document, {{"lr", document.real(0.5)}, {"fused", Value{}}});
    CHECK_NOTHROW(reversed.add("d.pt", "groups", none));
    // For values that are not scalars, only their presence is compared.
    RankSettings tensors;
    const auto object = [&](const char* name) {
        return document.object(document.global("m", name), document.tuple(std::array<Value, 0>{}));
    };
    tensors.add("a.pt", "state", dict(document, {{"step", object("A")}}));
    CHECK_NOTHROW(tensors.add("b.pt", "state", dict(document, {{"step", object("B")}})));
    CHECK_THROWS_AS(tensors.add("c.pt", "state", dict(document, {})), Error);
    RankSettings groups;
    groups.add_groups("a.pt", "groups", document.list(std::array{both}));
    CHECK_THROWS_AS(groups.add_groups("b.pt", "groups", document.list(std::array{one})), Error);
}
