// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/pickle_writer.hpp"

#include "formats/encodings/torch/pickle.hpp"
#include "lib/core/error.hpp"

#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <random>

using namespace tpx;
using torch::Document;
using torch::Entry;
using torch::PickleWriter;
using torch::read_pickle;
using torch::Value;
using torch::write_pickle;
using std::string_literals::operator""s;

namespace {

/// Makes random trees with shared nodes and every kind of value.
class Grower {
public:
    Grower(Document& document, unsigned seed) : document_{document}, random_{seed} {}

    Value grow(int depth) {
        if (!made_.empty() && pick(5) == 0) return made_[pick(made_.size())];
        const Value value = depth == 0 ? leaf() : branch(depth - 1);
        made_.push_back(value);
        return value;
    }

private:
    std::size_t pick(std::size_t n) { return random_() % n; }

    Value leaf() {
        switch (pick(9)) {
            case 0:
                return Value{};
            case 1:
                return Value::boolean(pick(2) == 0);
            case 2:
                return document_.integer(static_cast<std::int64_t>(random_() >> pick(64)) * (pick(2) == 0 ? 1 : -1));
            case 3:
                return document_.real(static_cast<double>(random_()) / 7);
            case 4:
                return document_.string(std::string(pick(300), 'x') + "\xc3\xa9");
            case 5:
                return document_.bytes(std::string{'\0', '\x7f', static_cast<char>(random_())});
            case 6:
                return document_.global("torch", pick(2) == 0 ? "float16" : "int64");
            case 7:
                return document_.big_integer(std::string(9 + pick(300), '\x7f'));
            default:
                return document_.size(std::array<std::int64_t, 2>{3, static_cast<std::int64_t>(pick(1000))});
        }
    }

    Value branch(int depth) {
        std::vector<Value> items;
        for (std::size_t i = pick(6); i > 0; --i) items.push_back(grow(depth));
        std::vector<Entry> entries;
        for (std::size_t i = pick(4); i > 0; --i) entries.push_back({grow(0), grow(depth)});
        switch (pick(7)) {
            case 0:
                return document_.list(items);
            case 1:
                return document_.tuple(items);
            case 2:
                return document_.dict(entries);
            case 3:
                return document_.set(items);
            case 4:
                return document_.frozenset(items);
            case 5:
                return document_.persistent(document_.tuple(items));
            default:
                return object(items, entries);
        }
    }

    Value object(const std::vector<Value>& items, const std::vector<Entry>& entries) {
        const Value made = document_.object(document_.global("some.module", "Class"), document_.tuple(items),
                                            pick(2) == 0 ? torch::Construction::call : torch::Construction::allocate);
        if (pick(2) == 0) document_.append(made, items);
        if (pick(2) == 0) document_.insert(made, entries);
        if (pick(2) == 0) document_.set_state(made, document_.dict(entries));
        return made;
    }

    Document& document_;
    std::mt19937_64 random_;
    std::vector<Value> made_;
};

std::string one(void (*write)(PickleWriter&)) {
    PickleWriter writer;
    write(writer);
    return writer.finish();
}

}  // namespace

TEST_CASE("any tree is read back unchanged") {
    for (unsigned seed = 0; seed < 300; ++seed) {
        CAPTURE(seed);
        Document document;
        const Value root = Grower{document, seed}.grow(4);
        const std::string pickle = write_pickle(root);
        CHECK(equal(read_pickle(pickle).document.root(), root));
    }
}

TEST_CASE("scalars get the shortest opcode, as in Python's pickler") {
    CHECK(one([](PickleWriter& w) { w.integer(0); }) == "\x80\x02K\x00."s);
    CHECK(one([](PickleWriter& w) { w.integer(255); }) == "\x80\x02K\xff."s);
    CHECK(one([](PickleWriter& w) { w.integer(256); }) == "\x80\x02M\x00\x01."s);
    CHECK(one([](PickleWriter& w) { w.integer(65536); }) == "\x80\x02J\x00\x00\x01\x00."s);
    CHECK(one([](PickleWriter& w) { w.integer(-1); }) == "\x80\x02J\xff\xff\xff\xff."s);
    CHECK(one([](PickleWriter& w) { w.integer(std::int64_t{1} << 31); }) == "\x80\x02\x8a\x05\x00\x00\x00\x80\x00."s);
    CHECK(one([](PickleWriter& w) { w.integer(-(std::int64_t{1} << 31) - 1); }) ==
          "\x80\x02\x8a\x05\xff\xff\xff\x7f\xff."s);
    CHECK(one([](PickleWriter& w) { w.integer(std::numeric_limits<std::int64_t>::min()); }) ==
          "\x80\x02\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80."s);
    CHECK(one([](PickleWriter& w) { w.real(1.5); }) == "\x80\x02G\x3f\xf8\x00\x00\x00\x00\x00\x00."s);
}

TEST_CASE("shared nodes and texts are written once; cycles are closed") {
    Document document;
    const Value list = document.list(std::array{document.integer(1)});
    const Value both = document.tuple(std::array{list, list, document.string("s"), document.string("s")});
    CHECK(write_pickle(both) ==
          "\x80\x02(]q\x00(K\x01"
          "eh\x00X\x01\x00\x00\x00sq\x01h\x01t."s);

    const Value self = document.list();
    document.append(self, std::array{self});
    const auto again = read_pickle(write_pickle(self));
    CHECK(again.document.root().items()[0] == again.document.root());

    const Value inner = document.list();
    const Value tuple = document.tuple(std::array{inner});
    document.append(inner, std::array{tuple});
    CHECK_THROWS_WITH_AS(write_pickle(tuple), "a tuple of 1 contains itself", Error);
}

TEST_CASE("a stream of opcodes makes the objects of a .metadata") {
    PickleWriter writer;
    writer.global("torch.distributed.checkpoint.metadata", "MetadataIndex");
    writer.empty_tuple();
    writer.new_object();
    writer.empty_dict();
    writer.mark();
    writer.string("fqn");
    writer.string("w");
    writer.string("offset");
    writer.size(std::array<std::int64_t, 4>{0, 1, 2, 3});
    writer.string("index");
    writer.none();
    writer.set_items();
    writer.build();
    const auto pickle = read_pickle(writer.finish());
    const Value index = pickle.document.root();
    CHECK(index.class_name() == "MetadataIndex");
    CHECK(index.attribute_at("fqn").as_string() == "w");
    CHECK(index.attribute_at("offset").is(torch::Kind::size));
    CHECK(index.attribute_at("offset").items()[3].as_int() == 3);
    CHECK(index.attribute_at("index").is_none());
}

TEST_CASE("a million levels are written without recursion") {
    Document document;
    Value value;
    for (int i = 0; i < 1'000'000; ++i) value = document.tuple(std::array{value});
    CHECK(write_pickle(value).size() == 2 + 1 + 1'000'000 + 1);
}
