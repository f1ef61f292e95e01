// SPDX-License-Identifier: Apache-2.0
#include "cmd/output/output.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace tpx::cli;

namespace {

// The output of `body` to file descriptor `number`.
template <class Body>
std::string written_to(int number, Body&& body) {
    std::FILE* const file = std::tmpfile();
    REQUIRE(file != nullptr);
    std::fflush(nullptr);
    const int saved = dup(number);
    dup2(fileno(file), number);
    body();
    std::fflush(nullptr);
    dup2(saved, number);
    close(saved);
    std::rewind(file);
    std::string text(4096, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    return text;
}

// An environment variable that is set while this object lives.
struct Variable {
    Variable(const char* name, const char* value) : name_{name} { setenv(name, value, 1); }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;
    ~Variable() { unsetenv(name_); }

private:
    const char* name_;
};

void say_all() {
    Output out{false, false};
    out.result("{} tensors\n", 3);
    out.note("{} left out", 1);
    out.finish();
}

}  // namespace

TEST_CASE("results go to standard output, notes to standard error") {
    std::string result;
    CHECK(written_to(STDERR_FILENO, [&] { result = written_to(STDOUT_FILENO, say_all); }) == "tpx: note: 1 left out\n");
    CHECK(result == "3 tensors\n");
}

TEST_CASE("only the first rank prints, whatever launched it") {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
        const Variable rank{name, "1"};
        CHECK(!is_first_rank());
        CHECK(written_to(STDOUT_FILENO, say_all) == "");
    }
    const Variable batch_script{"SLURM_PROCID", "0"};
    CHECK(is_first_rank());
    const Variable rank{"OMPI_COMM_WORLD_RANK", "2"};
    CHECK(!is_first_rank());
}

TEST_CASE("quiet silences notes and results, not lists that programs read") {
    const auto speak = [] {
        Output out{false, true};
        out.result("result\n");
        out.data("data\n");
        out.note("note");
    };
    CHECK(written_to(STDOUT_FILENO, speak) == "data\n");
    CHECK(written_to(STDERR_FILENO, [&] { written_to(STDOUT_FILENO, speak); }) == "");
}

TEST_CASE("a JSON object is one line of ASCII with its schema first, whatever it contains (T24)") {
    const std::string line = written_to(STDOUT_FILENO, [] {
        Output{true, false}.object("tpx.test/1", {{"zebra", 1}, {"ape", "bad \xff name\n\x7f\xc2\x9b\xe2\x80\xae"}});
    });
    CHECK(line == "{\"schema\":\"tpx.test/1\",\"zebra\":1,\"ape\":\"bad \\ufffd name\\n\\u007f\\u009b\\u202e\"}\n");
}

TEST_CASE("there is no color without a terminal") {
    CHECK(written_to(STDOUT_FILENO, [] {
              Output out{false, false};
              out.result("{}", out.paint(TextStyle::good, "fine"));
          }) == "fine");
}

TEST_CASE("T24: characters that a terminal would interpret, hide or reorder are escaped, other text is not") {
    CHECK(printable("a\tb\nc\x1b[31m\x7f") == "a\\x09b\\x0ac\\x1b[31m\\x7f");
    CHECK(printable("a\tb\nc\r", "\n\t") == "a\tb\nc\\x0d");
    CHECK(printable(std::string_view{"x\0y", 3}) == "x\\x00y");
    CHECK(printable("\xc2\x9b|\xe2\x80\xae|\xe2\x81\xa6|\xe2\x80\x8b|\xef\xbb\xbf|\xf3\xa0\x81\x81") ==
          "\\u{9b}|\\u{202e}|\\u{2066}|\\u{200b}|\\u{feff}|\\u{e0041}");
    CHECK(printable("caf\xc3\xa9 名前 😀") == "caf\xc3\xa9 名前 😀");
    CHECK(printable("caf\xe9 \xc0\x80 \xed\xa0\x80 \xf5 \xe2\x80") ==
          "caf\\xe9 \\xc0\\x80 \\xed\\xa0\\x80 \\xf5 \\xe2\\x80");
}
