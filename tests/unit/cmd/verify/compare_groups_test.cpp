// SPDX-License-Identifier: Apache-2.0
#include "cmd/verify/compare_groups.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace tpx;
using formats::SettingGroup;

namespace {

SettingGroup group(const std::string& optimizer, const std::string& number,
                   std::vector<std::pair<std::string, std::string>> settings) {
    SettingGroup result{optimizer, number, {}};
    for (auto& [key, text] : settings) result.settings[key] = {text};
    return result;
}

cli::Comparison compare(const std::vector<SettingGroup>& a, const std::vector<SettingGroup>& b,
                        bool by_parameter = false) {
    cli::Comparison result;
    compare_groups(a, b, {.by_parameter = by_parameter}, result);
    return result;
}

}  // namespace

TEST_CASE("the learning rate of a second optimizer is compared") {
    const auto both = [](const char* g, const char* d) {
        return std::vector{group("opt_d", "0", {{"lr", d}, {"params", "[0]"}}),
                           group("opt_g", "0", {{"lr", g}, {"params", "[0]"}})};
    };
    CHECK(compare(both("0.1", "0.2"), both("0.1", "0.2")).equal());
    const cli::Comparison changed = compare(both("0.1", "0.2"), both("0.1", "0.3"));
    REQUIRE(changed.differences.size() == 1);
    CHECK(changed.differences[0].name == "opt_d.param_groups.lr");
    CHECK(changed.differences[0].a == "0.2");
    CHECK(compare(both("0.1", "0.2"), both("0.2", "0.1")).differences.size() == 2);
}

TEST_CASE("groups are compared by their parameters, whatever their order") {
    const SettingGroup first = group("optimizer", "0", {{"lr", "0.1"}, {"params", "[0, 1]"}});
    const SettingGroup second = group("optimizer", "1", {{"lr", "0.2"}, {"params", "[2]"}});
    CHECK(compare({first, second}, {second, first}).equal());
    const SettingGroup other = group("optimizer", "1", {{"lr", "0.1"}, {"params", "[2]"}});
    const SettingGroup swapped = group("optimizer", "0", {{"lr", "0.2"}, {"params", "[0, 1]"}});
    CHECK(compare({first, second}, {swapped, other}).differences.size() == 2);
}

TEST_CASE("a parameter that moved to another group has other settings") {
    const auto groups = [](const char* first, const char* second) {
        return std::vector{group("optimizer", "0", {{"weight_decay", "0.1"}, {"params", first}}),
                           group("optimizer", "1", {{"weight_decay", "0.0"}, {"params", second}})};
    };
    CHECK(compare(groups("[0, 1]", "[2, 3]"), groups("[1, 0]", "[3, 2]")).equal());
    const cli::Comparison moved = compare(groups("[0, 1]", "[2, 3]"), groups("[0, 1, 2]", "[3]"));
    REQUIRE(moved.differences.size() == 1);
    CHECK(moved.differences[0].name == "param_groups.2.weight_decay");
    CHECK(moved.differences[0].a == "0.0");
    CHECK(moved.differences[0].b == "0.1");
}

TEST_CASE("Megatron's groups are identified by their multipliers, not by the numbers of their parameters") {
    const auto megatron = [](const char* number, const char* params, const char* mult, const char* lr) {
        return group("optimizer", number, {{"lr", lr}, {"params", params}, {"wd_mult", mult}});
    };
    CHECK(compare({megatron("0", "[0, 1]", "1.0", "0.1"), megatron("1", "[2]", "0.0", "0.2")},
                  {megatron("0", "[0]", "0.0", "0.2"), megatron("1", "[1]", "1.0", "0.1")}, true)
              .equal());
    CHECK(!compare({megatron("0", "[0, 1]", "1.0", "0.1")}, {megatron("0", "[0]", "1.0", "0.2")}, true).equal());
}

TEST_CASE("different numbers of groups are compared as sets, and default values count as missing") {
    const SettingGroup whole = group("optimizer", "0", {{"momentum", "0.9"}, {"amsgrad", "False"}, {"lr", "0"}});
    const SettingGroup a = group("optim", "layers.0.weight", {{"momentum", "0.9"}, {"lr", "0.0"}});
    const SettingGroup b = group("optim", "layers.0.bias", {{"momentum", "0.9"}, {"lr", "0.0"}});
    CHECK(compare({whole}, {a, b}).equal());
    const SettingGroup slow = group("optim", "layers.0.bias", {{"momentum", "0.8"}, {"lr", "0.0"}});
    const cli::Comparison changed = compare({whole}, {a, slow});
    REQUIRE(changed.differences.size() == 1);
    CHECK(changed.differences[0].b == "0.8; 0.9");
}

TEST_CASE("a setting that one side lacks is listed") {
    const cli::Comparison found = compare({group("optimizer", "0", {{"betas", "[0.9, 0.99]"}, {"lr", "0.1"}})},
                                          {group("optimizer", "0", {{"lr", "0.1"}})});
    REQUIRE(found.differences.size() == 1);
    CHECK(found.differences[0].lacking == 'B');
    CHECK(found.differences[0].name == "param_groups.betas");
}

TEST_CASE("a setting that one of several groups lacks is a difference, even with its usual value") {
    const auto groups = [](std::vector<std::pair<std::string, std::string>> second) {
        second.emplace_back("params", "[1]");
        return std::vector{group("optimizer", "0", {{"eps", "1e-08"}, {"lr", "0.1"}, {"params", "[0]"}}),
                           group("optimizer", "1", std::move(second))};
    };
    const auto whole = groups({{"eps", "1e-08"}, {"lr", "0.1"}});
    for (const bool by_parameter : {false, true}) {
        const cli::Comparison lacking = compare(whole, groups({{"lr", "0.1"}}), by_parameter);
        REQUIRE(lacking.differences.size() == 1);
        CHECK(lacking.differences[0].name == "param_groups.1.eps");
        CHECK(lacking.differences[0].lacking == 'B');
    }
    CHECK(compare(whole, groups({{"eps", "1e-08"}, {"lr", "0.1"}, {"initial_lr", "0.1"}}), true).equal());
}

TEST_CASE("a step that one of several groups lacks is a difference") {
    const auto groups = [](const char* step) {
        std::vector<SettingGroup> two{group("optimizer", "0", {{"lr", "0.1"}, {"wd_mult", "1.0"}, {"step", "10"}}),
                                      group("optimizer", "1", {{"lr", "0.1"}, {"wd_mult", "0.0"}, {"step", step}})};
        if (*step == '\0') two[1].settings.erase("step");
        return two;
    };
    CHECK(compare(groups("10"), groups("10")).equal());
    const cli::Comparison lacking = compare(groups("10"), groups(""));
    REQUIRE(lacking.differences.size() == 1);
    CHECK(lacking.differences[0].role == "step");
    CHECK(lacking.differences[0].name == "param_groups.1.step");
    CHECK(lacking.differences[0].lacking == 'B');
    CHECK(lacking.differences[0].a == "10");
    CHECK(compare(groups(""), groups("10")).differences.size() == 1);
    // Other formats store steps as tensors, and compare_steps() compares steps that all groups have.
    std::vector<SettingGroup> none = groups("");
    none[0].settings.erase("step");
    CHECK(compare(groups("10"), none).equal());
    CHECK(compare(groups("10"), groups("11")).equal());
    cli::Comparison ignored;
    compare_groups(groups("10"), groups(""), {.step = false}, ignored);
    CHECK(ignored.equal());
    compare_groups(groups("10"), groups(""), {.settings = false}, ignored);
    CHECK(ignored.differences.size() == 1);
}
