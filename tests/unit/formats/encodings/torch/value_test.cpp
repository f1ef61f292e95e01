// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/value.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <limits>
#include <random>

using namespace tpx;
using torch::Document;
using torch::Entry;
using torch::Kind;
using torch::Value;

TEST_CASE("ints of every width are read back, however they are stored") {
    Document document;
    std::mt19937_64 random{1};
    std::vector<std::int64_t> cases{0, -1, std::numeric_limits<std::int64_t>::min(),
                                    std::numeric_limits<std::int64_t>::max()};
    for (int bit = 0; bit < 63; ++bit)
        for (const std::int64_t near : {-1, 0, 1}) {
            cases.push_back((std::int64_t{1} << bit) + near);
            cases.push_back(-(std::int64_t{1} << bit) + near);
        }
    for (int i = 0; i < 1000; ++i) cases.push_back(static_cast<std::int64_t>(random() >> (random() % 64)));
    for (const std::int64_t number : cases) {
        const Value value = document.integer(number);
        CHECK(value.kind() == Kind::integer);
        CHECK(value.as_int() == number);
    }
}

TEST_CASE("a value of another kind is refused with both kinds named") {
    Document document;
    const Value text = document.string("x");
    CHECK_THROWS_WITH_AS(text.as_int(), "expected an int, found str 'x'", Error);
    CHECK_THROWS_WITH_AS(document.dict().as_string(), "expected a str, found a dict of 0", Error);
    CHECK_THROWS_WITH_AS(document.dict().at("step"), "no key 'step' in a dict of 0", Error);
    CHECK_THROWS_WITH_AS(Value{}.items(), "expected a list or tuple, found None", Error);
    CHECK_THROWS_AS(document.append(document.tuple({}), std::array{text}), Error);
    CHECK_THROWS_AS(document.insert(document.list(), std::array{Entry{text, text}}), Error);
    CHECK_THROWS_AS(document.object(text, text), Error);
}

TEST_CASE("lists and dicts grow and keep their order; of two equal keys, the last one counts") {
    Document document;
    const Value list = document.list();
    const Value dict = document.dict();
    for (int i = 0; i < 1000; ++i) {
        document.append(list, std::array{document.integer(i)});
        document.insert(dict, std::array{Entry{document.string(fmt::format("k{}", i)), document.integer(i)}});
    }
    document.insert(dict, std::array{Entry{document.string("k7"), document.real(0.5)}});
    REQUIRE(list.items().size() == 1000);
    for (int i = 0; i < 1000; ++i) CHECK(list.items()[i].as_int() == i);
    CHECK(dict.entries()[500].key.as_string() == "k500");
    CHECK(dict.at("k7").as_real() == 0.5);
    CHECK_FALSE(dict.find("k1000"));
}

TEST_CASE("edits are copies: the source and shared values stay unchanged") {
    Document source;
    const Value state = source.dict(
        std::array{Entry{source.string("tp"), source.integer(1)}, Entry{source.string("pp"), source.integer(2)}});
    const Value args =
        source.object(source.global("argparse", "Namespace"), source.tuple({}), torch::Construction::allocate);
    source.set_state(args, state);

    Document edited;
    const Value changed = edited.with_attribute(args, "tp", edited.integer(8));
    const Value added = edited.with_attribute(changed, "ep", edited.integer(4));
    CHECK(args.attribute_at("tp").as_int() == 1);
    CHECK(changed.attribute_at("tp").as_int() == 8);
    CHECK(changed.as_object().state.entries()[0].key.as_string() == "tp");
    CHECK(added.attribute_at("pp").as_int() == 2);
    CHECK(added.attribute_at("ep").as_int() == 4);
    CHECK(added.class_name() == "Namespace");
    CHECK_THROWS_WITH_AS(args.attribute_at("ep"), "no attribute 'ep' in object argparse.Namespace", Error);
    CHECK_THROWS_AS(source.set_state(args, state), Error);
}

TEST_CASE("attributes are found in slots too") {
    Document document;
    const Value slots = document.dict(std::array{Entry{document.string("x"), document.integer(3)}});
    const Value object = document.object(document.global("m", "C"), document.tuple({}));
    document.set_state(object, document.tuple(std::array{Value{}, slots}));
    CHECK(object.attribute_at("x").as_int() == 3);
    CHECK_FALSE(object.attribute("y"));
}

TEST_CASE("equality looks at content and order, and ends on cycles") {
    Document a, b;
    const auto nested = [](Document& d, std::int64_t last) {
        const Value inner = d.list(std::array{d.integer(1), d.string("s"), d.real(2), d.bytes("b"), d.integer(last)});
        return d.tuple(std::array{inner, inner, d.dict(std::array{Entry{inner, Value::boolean(true)}})});
    };
    CHECK(equal(nested(a, 5), nested(b, 5)));
    CHECK_FALSE(equal(nested(a, 5), nested(b, 6)));
    CHECK_FALSE(equal(a.list(), a.tuple({})));

    const auto cycle = [](Document& d, int length) {
        const Value first = d.list();
        Value last = first;
        for (int i = 1; i < length; ++i) {
            const Value next = d.list();
            d.append(last, std::array{next});
            last = next;
        }
        d.append(last, std::array{first});
        return first;
    };
    CHECK(equal(cycle(a, 2), cycle(b, 3)));
}

TEST_CASE("a million levels are built, compared and dropped without recursion") {
    Document a, b;
    Value left, right;
    for (int i = 0; i < 1'000'000; ++i) {
        left = a.list(std::array{left});
        right = b.tuple(std::array{b.list(std::array{right})}).items()[0];
    }
    CHECK(equal(left, right));
}

TEST_CASE("small documents take little memory") {
    Document document;
    document.string("x");
    CHECK(document.memory() <= 1024);
}
