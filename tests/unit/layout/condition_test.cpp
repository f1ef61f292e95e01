// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/condition.hpp"

#include "lib/core/error.hpp"

#include <doctest/doctest.h>

#include <string>

namespace {

using namespace tpx;

const Config known{{"l", std::int64_t{5}},
                   {"k", std::int64_t{3}},
                   {"zero", std::int64_t{0}},
                   {"yes", true},
                   {"no", false},
                   {"nothing", nullptr},
                   {"kind", std::string{"qwen2"}},
                   {"some", std::string{"1,5,9"}},
                   {"none", std::string{}},
                   {"kinds", std::string{"full,windowed,full"}},
                   {"mask", std::string{"0,0,1,1,0,1"}}};

std::optional<ConfigValue> look_up(std::string_view word) {
    const auto found = known.find(word);
    return found == known.end() ? std::nullopt : std::optional{found->second};
}

std::optional<bool> said(std::string_view condition) {
    const auto answer = evaluate_condition(condition, look_up);
    CHECK(evaluate_condition(condition, look_up, ListItems{known}) == answer);
    return answer;
}

TEST_CASE("a condition holds, does not hold or is unknown") {
    for (const char* condition : {"true",
                                  "1",
                                  "yes",
                                  "l",
                                  "!no",
                                  "!zero",
                                  "l >= k",
                                  "l > 4 & l < 6",
                                  "l % 2 = 1",
                                  "kind.letters[0] = 'q'",
                                  "kind.letters[k] = 'n'",
                                  "(l + 1) % 3 = 0",
                                  "l - 2 = k",
                                  "2 * k = l + 1",
                                  "l * 2 / 5 = 2",
                                  "kind = 'qwen2'",
                                  "kind != 'llama'",
                                  "l in some",
                                  "l in l",
                                  "mask[l]",
                                  "mask[k] & yes",
                                  "missing | true",
                                  "true if missing | k = 3",
                                  "yes if l = 5",
                                  "(no | yes) = 0",
                                  "!(l in none)",
                                  "missing & no = 0 | yes",
                                  "nothing | yes",
                                  "mask[l - 2]",
                                  "kinds[0] = 'full'",
                                  "kinds[k - 1] = 'full'",
                                  "kinds[1] != 'full'"}) {
        CAPTURE(condition);
        CHECK(said(condition) == true);
    }
    for (const char* condition :
         {"false", "0", "no", "zero", "!yes", "l < k", "k in some", "mask[4]", "missing & no", "no & missing", "none",
          "no | yes", "l in none", "no if yes | yes", "kinds[1] = 'full'"}) {
        CAPTURE(condition);
        CHECK(said(condition) == false);
    }
    for (const char* condition :
         {"missing", "nothing", "!missing", "missing & yes", "yes if missing", "mask[6]", "l / 2", "l % 0", "kind < 3",
          "l in kind", "k[0]", "kinds[k] = 'full'", "kinds[missing]", "9223372036854775807 + 1", "'a' < 'b'"}) {
        CAPTURE(condition);
        CHECK(said(condition) == std::nullopt);
    }
}

TEST_CASE("syntax errors in conditions are reported with their position") {
    const auto refusal = [](const std::string& condition) {
        try {
            check_condition(condition);
        } catch (const Error& error) {
            return std::string{error.what()};
        }
        return std::string{};
    };
    CHECK(refusal("") == "condition '': a name or number was expected (at 0)");
    CHECK(refusal("l >=") == "condition 'l >=': a name or number was expected (at 4)");
    CHECK(refusal("(l | k") == "condition '(l | k': ')' was expected (at 6)");
    CHECK(refusal("a b") == "condition 'a b': an operator was expected (at 2)");
    CHECK(refusal("a = 'b") == "condition 'a = 'b': a text does not end (at 5)");
    CHECK(refusal("m[1") == "condition 'm[1': ']' was expected (at 3)");
    CHECK(refusal(std::string(100000, '(')).find("too many parentheses") != std::string::npos);
    CHECK(refusal(std::string(100000, '!')).find("too many parentheses") != std::string::npos);
    CHECK(refusal("inner & iffy | in_it") == "");
}

TEST_CASE("lists are split only once, however many layers use their items") {
    const ListItems lists{known};
    int asked = 0;
    const Lookup counting = [&](std::string_view word) {
        ++asked;
        return look_up(word);
    };
    CHECK(evaluate_condition("kinds[1] = 'windowed' & mask[2]", counting, lists) == true);
    CHECK(asked == 0);
    CHECK(evaluate_condition("kinds[1] = 'windowed' & mask[2]", counting) == true);
    CHECK(asked == 2);
}

}  // namespace
