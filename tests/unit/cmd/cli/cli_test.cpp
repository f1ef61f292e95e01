// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/cli.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>

using namespace tpx;
using namespace tpx::cli;

namespace {

// A command with one option of each kind.
struct Sample {
    Command command{"sample", "Show every kind of option"};
    std::string from, to, way;
    std::vector<std::string> rules;
    std::optional<std::uint64_t> size;
    bool list = false, brief = false;

    Sample() {
        command.positional("FROM", &from, "Where from").required();
        command.positional("VIA", &way, "On the way").choices({"road", "rail"});
        command.option("--to", &to, "PLACE", "Where to").required({"--list"});
        command.option("--rules", &rules, "FILE", "Rules").file();
        command.option("--size", &size, "SIZE", "How large");
        command.flag("-l,--list", &list, "List all");
        command.flag("--brief", &brief, "Say little");
        command.exclusive({"--list", "--brief"});
        command.common_options();
    }

    std::string parse(const std::vector<std::string>& words) {
        try {
            command.parse(words);
            return "";
        } catch (const Error& error) {
            CHECK(error.exit() == Exit::usage);
            return error.what();
        }
    }
};

}  // namespace

TEST_CASE("numbers with fractions, times and rates are checked as they are parsed, with the option in the message") {
    Command command{"sample", "Show numbers"};
    Decimal pause;
    Duration within, mtbf, repair;
    Decimal share, load;
    Rate nic, slow;
    ReadWriteRates disk, same;
    command.option("--pause", &pause, "S", "Pause");
    command.option("--within", &within, "TIME", "Time left");
    command.option("--mtbf", &mtbf, "TIME", "Between failures").at_least(60);
    command.option("--repair", &repair, "TIME", "Of a failure").at_least(0).at_most(3600);
    command.option("--share", &share, "X", "Share").above(0).at_most(1);
    command.option("--load", &load, "X", "Load").at_least(1e-6).at_most(1e6);
    command.option("--nic", &nic, "RATE", "Rate");
    command.option("--slow", &slow, "RATE", "Rate").at_least(100e3);
    command.option("--disk", &disk, "RATE", "Rates");
    command.option("--same", &same, "RATE", "Rates");
    const auto mistake = [&](const std::string& word) -> std::string {
        try {
            command.parse(std::vector{word});
        } catch (const Error& error) {
            return error.exit() == Exit::usage ? error.what() : "not a usage error";
        }
        return "";
    };
    command.parse(std::vector<std::string>{"--pause=2.5e-1", "--within=1.5 min", "--nic=200Gbit/s", "--slow=100kB/s",
                                           "--disk=5GB/s,2GB/s", "--same=3GB/s"});
    CHECK(*pause == 0.25);
    CHECK(*within == 90);
    CHECK(*nic == 25e9);
    CHECK(*slow == 100e3);
    CHECK((*disk.read == 5e9 && *disk.write == 2e9));
    CHECK((*same.read == 3e9 && *same.write == 3e9));
    for (const std::string text : {"-1", "nan", "inf", "1e999", "1s", "x"})
        CHECK(mistake("--pause=" + text) == "--pause: '" + text + "' is not a number of at least 0");
    for (const std::string text : {"0", "-1s", "nan", "inf", "1e308h", "5w", "s"})
        CHECK(mistake("--within=" + text) == "--within: '" + text + "' is not a time such as 90s, 2min or 1h");
    command.parse(std::vector<std::string>{"--within=30d", "--mtbf=1h", "--share=0.5", "--load=1e-6", "--repair=0"});
    CHECK((*within == 30 * 86400 && *mtbf == 3600 && *share == 0.5 && *load == 1e-6 && *repair == 0));
    CHECK(mistake("--mtbf=59") == "--mtbf: '59' is less than 60 s");
    CHECK(mistake("--repair=2h") == "--repair: '2h' is more than 3600 s");
    for (const std::string text : {"0", "1.1", "-1", "x"})
        CHECK(mistake("--share=" + text) == "--share: '" + text + "' is not above 0 and at most 1");
    for (const std::string text : {"0", "2e6", "nan"})
        CHECK(mistake("--load=" + text) == "--load: '" + text + "' is not a number from 1e-06 to 1e+06");
    CHECK(mistake("--nic=25") == "--nic: '25' is not a rate such as 25GB/s or 200Gbit/s");
    CHECK(mistake("--slow=99kB/s") == "--slow: 99kB/s is less than 100 kB/s");
    for (const std::string text : {"5GB/s,", ",5GB/s", "1GB/s,2GB/s,3GB/s"}) {
        CAPTURE(text);
        CHECK(mistake("--disk=" + text).starts_with("--disk: '"));
    }
}

TEST_CASE("every kind of value is stored in its target, in any order of words") {
    const std::vector<std::vector<std::string>> spellings{
        {"a", "rail", "--to", "b", "--rules", "x", "--rules", "y", "--size", "2KiB", "-l", "-q"},
        {"-lq", "--rules=x", "a", "--size=2KiB", "--to=b", "--rules=y", "rail"},
        {"--to", "b", "--rules", "x", "--list", "--rules", "y", "--size", "2048", "--quiet", "--", "a", "rail"}};
    for (const auto& words : spellings) {
        Sample sample;
        REQUIRE(sample.parse(words) == "");
        CHECK(sample.from == "a");
        CHECK(sample.way == "rail");
        CHECK(sample.to == "b");
        CHECK(sample.rules == std::vector<std::string>{"x", "y"});
        CHECK(sample.size == 2048);
        CHECK(sample.list);
        CHECK(!sample.brief);
        CHECK(sample.command.quiet());
        CHECK(!sample.command.json());
        CHECK(!sample.command.help());
    }
}

TEST_CASE("each mistake is reported with the nearest valid name") {
    const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes{
        {{}, "FROM is missing"},
        {{"a"}, "--to PLACE (or --list) is missing"},
        {{"a", "--to"}, "--to: the value PLACE is missing"},
        {{"a", "--to", "--list"}, "--to: the value PLACE is missing"},
        {{"a", "--to", ""}, "--to: the value is empty"},
        {{"", "--to", "b"}, "FROM: the value is empty"},
        {{"a", "--to", "b", "--to", "c"}, "--to: given more than once"},
        {{"a", "--list=yes"}, "--list: takes no value"},
        {{"a", "--lits"}, "unknown option '--lits'; did you mean '--list'?"},
        {{"a", "--sizes=3"}, "unknown option '--sizes'; did you mean '--size'?"},
        {{"a", "--color"}, "unknown option '--color'"},
        {{"a", "-x"}, "unknown option '-x'"},
        {{"a", "-lx"}, "unknown option '-x'"},
        {{"a", "raill", "-l"}, "VIA: unknown value 'raill'; use road or rail; did you mean 'rail'?"},
        {{"a", "rail", "c", "-l"}, "unexpected argument 'c'"},
        {{"a", "--list", "--brief"}, "--list and --brief exclude each other"},
        {{"a", "-l", "--size", "much"}, "--size: 'much' is not a size such as 4096, 64MiB or 1.5GB"},
    };
    for (const auto& [words, message] : mistakes) CHECK(Sample{}.parse(words) == message);
}

TEST_CASE("help is printed whatever else is wrong") {
    Sample sample;
    CHECK(sample.parse({"--nonsense", "-h"}) == "");
    CHECK(sample.command.help());
}

TEST_CASE("values can look like anything, even like a negative number or standard input") {
    Sample sample;
    CHECK(sample.parse({"-", "--to", "-1"}) == "");
    CHECK(sample.from == "-");
    CHECK(sample.to == "-1");
}

TEST_CASE("a positional argument whose target is a list takes all arguments") {
    Command command{"sample", "Read logs"};
    std::vector<std::string> logs;
    std::string to;
    command.positional("LOG", &logs, "Logs").required();
    command.option("--to", &to, "PLACE", "Where to");
    command.parse(std::vector<std::string>{"a", "--to", "b", "c", "-", "--", "--d"});
    CHECK(logs == std::vector<std::string>{"a", "c", "-", "--d"});
    CHECK(to == "b");
    CHECK_THROWS_AS(command.parse(std::vector<std::string>{"--to", "b"}), Error);
    CHECK_THROWS_AS(command.parse(std::vector<std::string>{"a", "--wrong"}), Error);
}
