// SPDX-License-Identifier: Apache-2.0
#include "cmd/output/html_page.hpp"

#include "cmd/report/report.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

using namespace tpx::cli;
using Json = nlohmann::ordered_json;

namespace {

// The data that the scripts of `page` read.
std::string carried(const std::string& page) {
    const std::string open = R"(<script type="application/json" id="data">)";
    const std::size_t begin = page.find(open);
    REQUIRE(begin != std::string::npos);
    const std::size_t end = page.find("</script>", begin);
    return page.substr(begin + open.size(), end - begin - open.size());
}

TEST_CASE("the page contains the plan unchanged") {
    const Json plan{{"model", "small"}, {"flows", Json::array()}, {"seconds", 0.1}, {"bytes", 9007199254740993u}};
    CHECK(Json::parse(carried(html_report(plan))) == plan);
}

TEST_CASE("no name can break out of the data or become part of the page") {
    const Json plan{
        {"flows", Json::array()},
        {"names",
         {"</script><script>alert(1)</script>", "<!--<script>", "]]>", "&lt;&amp;", "\"'\\`${x}",
          std::string{"nul\0byte\x01\x1f\x7f", 11}, "\xe2\x80\xa8\xe2\x80\xa9", "名前", "{{data}}{{script}}"}},
        {"</script>", "a name may be a key"}};
    const std::string data = carried(html_report(plan));
    CHECK(data.find_first_of("<>&") == std::string::npos);
    CHECK(std::ranges::all_of(data, [](char sign) { return sign >= ' ' && sign < 0x7f; }));
    CHECK(Json::parse(data) == plan);
}

TEST_CASE("bytes that are not UTF-8 are replaced") {
    const Json plan{{"flows", Json::array()}, {"model", "caf\xe9\xff"}};
    CHECK(Json::parse(carried(html_report(plan)))["model"] == "caf\xef\xbf\xbd\xef\xbf\xbd");
}

TEST_CASE("of very many flows, the largest are shown, and the page has the sum of the others") {
    Json flows = Json::array();
    for (std::uint64_t k = 0; k < 50'003; ++k) flows.push_back({{"from", k}, {"to", k + 1}, {"bytes", 1 + k % 25'000}});
    const Json plan = Json::parse(carried(html_report({{"flows", flows}})));
    REQUIRE(plan["flows"].size() == 50'000);
    CHECK(plan["flows_left_out"] == Json{{"flows", 3}, {"bytes", 1 + 1 + 1}});
    for (std::size_t k = 1; k < plan["flows"].size(); ++k)
        REQUIRE(plan["flows"][k - 1]["from"] < plan["flows"][k]["from"]);
    flows.erase(flows.begin() + 50'000, flows.end());
    CHECK_FALSE(Json::parse(carried(html_report({{"flows", flows}}))).contains("flows_left_out"));
}

TEST_CASE("every part of the reports is compiled in unchanged") {
    int parts = 0;
    for (const auto& entry : std::filesystem::directory_iterator{"cmd/report"}) {
        const std::string extension = entry.path().extension().string();
        if (extension != ".html" && extension != ".css" && extension != ".js") continue;
        std::ostringstream text;
        text << std::ifstream{entry.path()}.rdbuf();
        CAPTURE(entry.path());
        CHECK(report_part(entry.path().filename().string()) == text.str());
        ++parts;
    }
    CHECK(parts >= 4);
}

TEST_CASE("the page is self-contained, and its scripts never turn text into markup") {
    const std::string page = html_report({{"flows", Json::array()}});
    const std::regex elsewhere{
        R"((src|href|url)\s*[=(]\s*["']?\s*(https?:|//)|@import|\bfetch\(|XMLHttpRequest|import\()"};
    CHECK_FALSE(std::regex_search(page, elsewhere));
    for (const char* maker : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "{{"})
        CHECK_MESSAGE(page.find(maker) == std::string::npos, maker);
    CHECK(page.find("default-src 'none'") != std::string::npos);
}

}  // namespace
