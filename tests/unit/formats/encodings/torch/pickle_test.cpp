// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/pickle.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>

using namespace tpx;
using torch::Kind;
using torch::read_pickle;
using torch::Value;
using std::string_literals::operator""s;

namespace {

/// `value` in a notation close to Python's, to compare whole trees in one line.
std::string print(Value value) {
    std::string out;
    const auto list = [&](std::string_view open, std::span<const Value> items, std::string_view close) {
        out += open;
        for (const Value item : items) out += print(item) + ",";
        out += close;
    };
    switch (value.kind()) {
        case Kind::none:
        case Kind::boolean:
            return value.describe();
        case Kind::integer:
            return std::to_string(value.as_int());
        case Kind::real:
            return fmt::format("{}", value.as_real());
        case Kind::string:
            return fmt::format("'{}'", value.as_string());
        case Kind::bytes:
        case Kind::big_integer:
            for (const char c : value.as_bytes()) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
            return value.is(Kind::bytes) ? "b" + out : "0x" + out;
        case Kind::tuple:
            list("(", value.items(), ")");
            return out;
        case Kind::size:
            list("Size(", value.items(), ")");
            return out;
        case Kind::list:
            list("[", value.items(), "]");
            return out;
        case Kind::set:
        case Kind::frozenset:
            list(value.is(Kind::set) ? "{" : "frozen{", value.items(), "}");
            return out;
        case Kind::dict:
            for (const auto& [key, item] : value.entries()) out += print(key) + ":" + print(item) + ",";
            return "{" + out + "}";
        case Kind::global:
            return value.describe();
        case Kind::persistent:
            return "storage" + print(value.as_persistent());
        case Kind::object:
            break;
    }
    const auto& object = value.as_object();
    out = object.construction == torch::Construction::allocate ? "new " : "";
    out += print(object.callable) + print(object.args);
    if (!object.items().empty()) list("[", object.items(), "]");
    if (!object.entries().empty()) {
        out += "{";
        for (const auto& [key, item] : object.entries()) out += print(key) + ":" + print(item) + ",";
        out += "}";
    }
    return object.state.is_none() ? out : out + "!" + print(object.state);
}

std::string read(const std::string& pickle) {
    const auto result = read_pickle(pickle + "rest");
    CHECK(result.length == pickle.size());
    return print(result.document.root());
}

}  // namespace

TEST_CASE("numbers of every opcode") {
    CHECK(read("\x80\x02(K\xffM\xff\xffJ\xfe\xff\xff\xff\x8a\x00\x8a\x01\xff\x8a\x02\xff\x00t."s) ==
          "(255,65535,-2,0,-1,255,)");
    CHECK(read("\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00."s) == "0x000000000000008000");
    CHECK(read("\x80\x02\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\x00."s) == "9223372036854775807");
    CHECK(read("\x80\x02\x8b\x02\x00\x00\x00\x00\x80."s) == "-32768");
    CHECK(read("(I5\nI01\nI00\nL-7L\nL18446744073709551616L\nF2.5\nt."s) ==
          "(5,True,False,-7,0x000000000000000001,2.5,)");
    CHECK(read("(L-9223372036854775808L\nL-9223372036854775809L\nL255L\nL-256L\nt."s) ==
          "(-9223372036854775808,0xffffffffffffff7fff,255,-256,)");
    CHECK(read("(G\x3f\xf8\x00\x00\x00\x00\x00\x00N\x88\x89t."s) == "(1.5,None,True,False,)");
}

TEST_CASE("texts and bytes of every opcode") {
    CHECK(read("(X\x02\x00\x00\x00\xc3\xa9\x8c\x01z\x8d\x01\x00\x00\x00\x00\x00\x00\x00yt."s) ==
          "('\xc3\xa9','z','y',)");
    CHECK(read("(C\x01\xff\x42\x02\x00\x00\x00\x01\x02\x8e\x01\x00\x00\x00\x00\x00\x00\x00\x03t."s) ==
          "(bff,b0102,b03,)");
    CHECK(read("(U\x01zT\x01\x00\x00\x00\xfft."s) == "('z',bff,)");
    CHECK(read("(S'a\\'\\x41\\n\\101'\nS\"q\"\nV\\u00e9\xe9\\U0001f600\nt."s) ==
          "('a'A\nA','q','\xc3\xa9\xc3\xa9\xf0\x9f\x98\x80',)");
    CHECK(read("\x80\x05\x96\x01\x00\x00\x00\x00\x00\x00\x00\x05."s) == "builtins.bytearray(b05,)");
    CHECK(read("\x80\x02"
               "c_codecs\nencode\n(X\x03\x00\x00\x00\x00\xc3\xbfX\x06\x00\x00\x00latin1tR."s) == "b00ff");
}

TEST_CASE("containers keep their order; memo and marks nest") {
    CHECK(read("()K\x01\x85K\x01K\x02\x86K\x01K\x02K\x03\x87(N)tt.") == "((),(1,),(1,2,),(1,2,3,),(None,(),),)");
    CHECK(read("](K\x01(K\x02K\x03leK\x04"
               "a.") == "[1,[2,3,],4,]");
    CHECK(read("}X\x01\x00\x00\x00"
               "bK\x01s(K\x05K\x06u."s) == "{'b':1,5:6,}");
    CHECK(read("(K\x02N)Nd.") == "{2:None,():None,}");
    CHECK(read("\x80\x04\x8f(K\x01K\x02\x90(K\x03\x91\x86.") == "({1,2,},frozen{3,},)");
    CHECK(read("]2\x86.") == "([],[],)");
    CHECK(read("K\x07(K\x01K\x02"
               "1.") == "7");
    CHECK(read("K\x07(0K\x01"
               "0.") == "7");
    CHECK(read("(\x80\x04]\x94h\x00h\x00t."s) == "([],[],[],)");
    CHECK(read("]p300\nr\x05\x00\x00\x00j\x05\x00\x00\x00g300\n\x87."s) == "([],[],[],)");
}

TEST_CASE("objects are recorded, never constructed") {
    CHECK(read("\x80\x02"
               "cargparse\nNamespace\n)\x81}X\x01\x00\x00\x00"
               "aK\x01sb."s) == "new argparse.Namespace()!{'a':1,}");
    CHECK(read("\x80\x02"
               "ccollections\nOrderedDict\n)R(K\x01K\x02u(K\x03"
               "e."s) == "collections.OrderedDict()[3,]{1:2,}");
    CHECK(read("\x80\x04\x8c\x05torch\x8c\x04Size\x93K\x02K\x03\x86\x85R."s) == "Size(2,3,)");
    CHECK(read("\x80\x02"
               "ctorch\nfloat16\n."s) == "torch.float16");
    CHECK(read("\x80\x02"
               "c__builtin__\nset\n](K\x01K\x02"
               "e\x85R."s) == "{1,2,}");
    CHECK(read("\x80\x02"
               "c__builtin__\nlong\n."s) == "builtins.int");
    CHECK(read("\x80\x02(X\x07\x00\x00\x00storageK\x05tQ."s) == "storage('storage',5,)");
    // Streams of whole modules contain each class with the file and the text of its source.
    CHECK(read("\x80\x02(X\x06\x00\x00\x00modulecm\nC\nX\x01\x00\x00\x00pX\x01\x00\x00\x00stQ)\x81."s) == "new m.C()");
    CHECK(read("\x80\x04\x8c\x01m\x8c\x01"
               "C\x93)}\x92."s) == "copyreg.__newobj_ex__(m.C,(),{},)");
    CHECK(read("(im\nC\n."s) == "m.C()");
    CHECK(read("(cm\nC\nK\x01o."s) == "m.C(1,)");
    CHECK(read("\x80\x02"
               "c__builtin__\ngetattr\ncx.y\n_KIND\nX\x01\x00\x00\x00"
               "a\x86R."s) == "builtins.getattr(x.y._KIND,'a',)");
}

TEST_CASE("names that only an attack would contain are refused") {
    const auto refused = [](const std::string& pickle, const char* message) {
        CHECK_THROWS_WITH_AS(read_pickle(pickle), message, Error);
    };
    refused("cos\nsystem\n.", "byte 0: refused: the pickle names os.system, which would run code");
    refused("cposix\nsystem\n.", "byte 0: refused: the pickle names posix.system, which would run code");
    refused("csubprocess\nPopen\n.", "byte 0: refused: the pickle names subprocess.Popen, which would run code");
    refused("cos.path\njoin\n.", "byte 0: refused: the pickle names os.path.join, which would run code");
    refused("c__builtin__\nexec\n.", "byte 0: refused: the pickle names builtins.exec, which would run code");
    refused("cbuiltins\neval\n.", "byte 0: refused: the pickle names builtins.eval, which would run code");
    refused("\x80\x04\x8c\x03sys\x8c\x07modules\x93.",
            "byte 16: refused: the pickle names sys.modules, which would run code");
    refused(
        "\x80\x04\x8c\x0b__builtin__\x8c\x04"
        "eval\x93.",
        "byte 21: refused: the pickle names builtins.eval, which would run code");
    refused("(ios\nsystem\n.", "byte 1: refused: the pickle names os.system, which would run code");
    refused("cbuiltins\ngetattr\n(ctorch\nserialization\nS'os'\ntR.",
            "byte 47: refused: the pickle calls getattr(torch.serialization, 'os'), which would run code");
    refused("cbuiltins\ngetattr\n(cm\nC\nS'__class__'\ntR.",
            "byte 38: refused: the pickle calls getattr(m.C, '__class__'), which would run code");
    refused("cbuiltins\ngetattr\n(K\x01S'a'\ntR.",
            "byte 27: refused: the pickle calls getattr on something that is not an enum, which would run code");
}

TEST_CASE("malformed pickles are refused with the position of the error") {
    const auto refused = [](const std::string& pickle, const char* message) {
        CHECK_THROWS_WITH_AS(read_pickle(pickle), message, Error);
    };
    refused("", "byte 0: 1 bytes are expected, 0 are left");
    refused("N", "byte 1: 1 bytes are expected, 0 are left");
    refused(".", "byte 0: the stack is empty");
    refused("(.", "byte 1: the stack is empty");
    refused("K\x01(\x85.", "byte 3: the stack is empty");
    refused("\xf7.", "byte 0: unknown opcode 0xf7");
    refused("\x80\x06.", "byte 0: pickle protocol 6 is newer than 5");
    refused("X\xf0\xff\xff\xff.", "byte 0: 4294967280 bytes are expected, 1 are left");
    refused("\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", "byte 0: 18446744073709551615 bytes are expected, 1 are left");
    refused("\x95\xff\xff\xff\xff\xff\xff\xff\xff.", "byte 0: a frame of 18446744073709551615 bytes, 1 are left");
    refused("X\x01\x00\x00\x00\xff."s, "byte 0: a str is not UTF-8");
    refused("h\x07.", "byte 0: memo 7 is not set");
    refused("j\xff\xff\xff\xff.", "byte 0: memo 4294967295 is not set");
    refused("e.", "byte 0: no mark on the stack");
    refused("}(K\x01u.", "byte 4: a key has no value");
    refused(
        "N(K\x01"
        "e.",
        "byte 4: cannot append to None");
    refused("\x8c\x01m\x8c\x03x\nR\x93.", "byte 8: the name of a global is empty or not text");
    refused("c\nC\n.", "byte 0: the name of a global is empty or not text");
    refused("cm\nC\nNR.", "byte 6: expected a tuple of arguments, found None");
    refused("}}b.", "byte 2: cannot set the state of a dict of 0");
    refused("cm\nC", "byte 0: a line has no end");
    refused("Fx\n.", "byte 0: malformed float");
    refused("I\n.", "byte 0: malformed int of 0 digits");
    refused("S'a\n.", "byte 0: a string without quotes");
    refused("S'\\xg0'\n.", "byte 0: malformed escape in a string");
    refused("\x82\x01.", "byte 0: unknown opcode 0x82");
}

TEST_CASE("Python's six protocols give the same values") {
    const auto of = [](int protocol) {
        return read_pickle(read_file(fmt::format("testdata/torch/pickles/protocol{}.pkl", protocol)));
    };
    const auto first = of(0);
    CHECK(first.document.root().at("ints").items()[6].as_int() == std::numeric_limits<std::int64_t>::min());
    CHECK(first.document.root().at("bytes").items()[1].as_bytes().size() == 256);
    CHECK(first.document.root().at("shared").items()[0] == first.document.root().at("ints"));
    for (int protocol = 1; protocol <= 5; ++protocol) {
        CAPTURE(protocol);
        CHECK(equal(first.document.root(), of(protocol).document.root()));
    }
}

TEST_CASE("a memo slot far beyond all others costs one slot") {
    CHECK(read("]r\xff\xff\xff\xffj\xff\xff\xff\xff\x86."s) == "([],[],)");
}

TEST_CASE("calls that copy one list again and again are stopped") {
    std::string pickle = "\x80\x02]q\x00(";
    for (int i = 0; i < 100000; ++i) pickle += 'N';
    pickle +=
        "e0c__builtin__\nset\nq\x01"
        "0";
    for (int i = 0; i < 100000; ++i) pickle += "h\x01h\x00\x85R0";
    CHECK_THROWS_AS(read_pickle(pickle + "N."), Error);
}

TEST_CASE("values nested a thousand deep are read, deeper ones are refused however they are nested") {
    const auto lists = [](std::size_t depth) { return std::string(depth, ']') + std::string(depth - 1, 'a') + "."; };
    CHECK(read_pickle(lists(1000)).document.root().items().size() == 1);
    const auto refused = doctest::Contains("nested more than 1000 deep");
    CHECK_THROWS_WITH_AS(read_pickle(lists(1001)), refused, Error);
    CHECK_THROWS_WITH_AS(read_pickle(")" + std::string(1000, '\x85') + "."), refused, Error);
    CHECK_THROWS_WITH_AS(read_pickle(std::string(1001, '(') + std::string(1001, 't') + "."), refused, Error);
    std::string dicts, objects = "N", shared = ")q\x01"s;
    for (int k = 0; k < 1000; ++k) {
        dicts += "}K\x01"s;
        objects +=
            "\x85q\x01"
            "0cm\nf\nh\x01R"s;
        shared += "0h\x01\x85q\x01"s;
    }
    CHECK_THROWS_WITH_AS(read_pickle(dicts + "}" + std::string(1000, 's') + "."), refused, Error);
    CHECK_THROWS_WITH_AS(read_pickle(objects + "."), refused, Error);
    CHECK_THROWS_WITH_AS(read_pickle(shared + "."), refused, Error);
}

TEST_CASE("a pickle may not take more than a small multiple of its size") {
    // 40 MB of lists on the stack took 1.1 GB.
    CHECK_THROWS_WITH_AS(read_pickle(std::string(40'000'000, ']') + "."),
                         doctest::Contains("more than 4194304 values are on the stack"), Error);
    std::string lists = "]";
    for (int k = 0; k < 10'000; ++k) lists += "(" + std::string(1000, ']') + "e";
    CHECK_THROWS_WITH_AS(read_pickle(lists + "."), doctest::Contains("take more than"), Error);
}
