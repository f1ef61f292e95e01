// SPDX-License-Identifier: Apache-2.0
#include "formats/state/state_node.hpp"

#include "formats/encodings/torch/numpy.hpp"
#include "formats/encodings/torch/pickle.hpp"
#include "formats/encodings/torch/pickle_writer.hpp"
#include "formats/state/differences.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace tpx;
using namespace tpx::formats;
using torch::Document;
using torch::Entry;
using torch::Value;
using Kind = StateNode::Kind;

namespace {

StateNode node_of(Value value) { return make_state_node(value, nullptr, TensorTreatment::state, "x"); }

StateNode pickled(std::string_view bytes) {
    const torch::Pickle pickle = torch::read_pickle(bytes);
    return node_of(pickle.document.root());
}

}  // namespace

TEST_CASE("scalars are printed as in Python") {
    Document document;
    CHECK(node_of(Value{}).kind == Kind::none);
    CHECK(node_of(Value::boolean(true)).text == "True");
    CHECK(node_of(document.integer(-7)).text == "-7");
    CHECK(node_of(document.real(1)).text == "1.0");
    CHECK(node_of(document.real(1e-5)).text == "1e-05");
    CHECK(node_of(document.real(-1.0 / 0.0)).text == "-inf");
    CHECK(node_of(document.big_integer(std::string(8, '\0') + "\x40")).text == "1180591620717411303424");
    CHECK(node_of(document.big_integer(std::string(9, '\0') + "\xff")).text == "-4722366482869645213696");
    CHECK(node_of(document.bytes("abc")).count == 3);
}

TEST_CASE("objects consist of their class and attributes, without code") {
    const std::string text =
        "\x80\x02"
        "cargparse\nNamespace\n)\x81}(U\x01"
        "aK\x01U\x01"
        "bNub.";
    const StateNode node = pickled(text);
    REQUIRE(node.children.size() == 2);
    CHECK(node.children[0].key == "a");
    CHECK(node.kind == Kind::mapping);
    CHECK(node.type == "argparse.Namespace");
}

TEST_CASE("numbers of NumPy are numbers") {
    Document document;
    const Value type =
        document.object(document.global("numpy", "dtype"), document.tuple(std::vector<Value>{document.string("i4")}));
    document.set_state(type, document.tuple(std::vector<Value>{document.integer(3), document.string(">")}));
    const Value number =
        document.object(document.global("numpy.core.multiarray", "scalar"),
                        document.tuple(std::vector<Value>{type, document.bytes(std::string_view{"\0\0\1\2", 4})}));
    CHECK(node_of(number).kind == Kind::integer);
    CHECK(node_of(number).text == "258");
}

TEST_CASE("a small pickle cannot make a large tree") {
    // Each list contains the previous one twice: fully expanded, it would have 2^60 leaves.
    Document document;
    Value list = document.list(std::vector<Value>{document.list(), document.list()});
    for (int k = 0; k < 60; ++k) list = document.list(std::vector<Value>{list, list});
    const StateNode node = node_of(list);
    CHECK(node.children[1].node.kind == Kind::same);
    CHECK(node.children[1].node.text == "x[0]");
    // A thousand levels are cut off.
    for (int k = 0; k < 1000; ++k) list = document.list(std::vector<Value>{list});
    const StateNode deep = node_of(list);
    int levels = 0;
    const StateNode* at = &deep;
    while (!at->children.empty()) {
        at = &at->children[0].node;
        ++levels;
    }
    CHECK(at->kind == Kind::deep);
    CHECK(levels == StateNode::deepest);
    // A list that contains itself ends, too.
    const Value self = document.list();
    document.append(self, std::vector<Value>{self, document.list(std::vector<Value>{document.list()})});
    CHECK(node_of(self).children[0].node.kind == Kind::same);
}

TEST_CASE("differences go through dicts key by key") {
    Document document;
    const auto dict = [&](int rank, int tp) {
        return document.dict(std::vector<Entry>{{document.string("rank"), document.integer(rank)},
                                                {document.string("tp"), document.integer(tp)}});
    };
    CHECK(!differences(node_of(dict(1, 2)), node_of(dict(1, 2))));
    const auto other = differences(node_of(dict(3, 2)), node_of(dict(1, 2)));
    REQUIRE(other);
    REQUIRE(other->children.size() == 1);
    CHECK(other->children[0].key == "rank");
    CHECK(other->children[0].node.text == "3");
}

TEST_CASE("keys that JSON cannot represent, or that look alike, are reported") {
    Document document;
    const Value pair = document.tuple(std::vector<Value>{document.integer(1), document.integer(2)});
    CHECK_FALSE(node_of(document.dict(std::vector<Entry>{{pair, Value{}}})).plain_keys);
    CHECK_FALSE(
        node_of(document.dict(std::vector<Entry>{{document.integer(1), Value{}}, {document.string("1"), Value{}}}))
            .plain_keys);
    CHECK(node_of(document.dict(std::vector<Entry>{{document.integer(1), Value{}}})).plain_keys);
}

TEST_CASE("an array of NumPy in column-major order has its elements in row-major order") {
    Document document;
    const Value type =
        document.object(document.global("numpy", "dtype"), document.tuple(std::vector<Value>{document.string("u1")}));
    const auto array = [&](bool column_major, std::string_view bytes) {
        const Value value = document.object(document.global("numpy.core.multiarray", "_reconstruct"),
                                            document.tuple(std::vector<Value>{}));
        const Value shape = document.tuple(std::vector<Value>{document.integer(2), document.integer(3)});
        document.set_state(
            value, document.tuple(std::vector<Value>{document.integer(1), shape, type, Value::boolean(column_major),
                                                     document.bytes(bytes)}));
        return value;
    };
    const auto stored = torch::numpy_value(array(true, "adbecf"));
    REQUIRE(stored);
    CHECK(stored->bytes == "abcdef");
    CHECK(torch::numpy_value(array(false, "abcdef"))->bytes == "abcdef");
    CHECK(node_of(array(true, "adbecf")).text == node_of(array(false, "abcdef")).text);
}
