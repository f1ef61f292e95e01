// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace tpx::cli {

/// The text of a file in cmd/report/, all of which are compiled in. Precondition: the file exists.
std::string_view report_part(std::string_view file);

/// The parts of a report: names of files in cmd/report/.
struct HtmlPage {
    std::string_view title;
    std::string_view body;
    std::vector<std::string_view> styles;
    std::vector<std::string_view> scripts;
};

/// A page that needs no other file and no network. Its scripts find `data` in the element with the id "data"; no
/// text in it can end that element or be taken for markup, and bytes that are not UTF-8 become U+FFFD.
std::string html_page(const HtmlPage& page, const nlohmann::ordered_json& data);

}  // namespace tpx::cli
