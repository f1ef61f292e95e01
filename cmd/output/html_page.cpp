// SPDX-License-Identifier: Apache-2.0
#include "cmd/output/html_page.hpp"

#include "cmd/version.hpp"

#include <nlohmann/json.hpp>

namespace tpx::cli {
namespace {

/// JSON that is safe inside <script>. Characters with a meaning in HTML occur only in JSON strings, where they are
/// escaped.
std::string to_script(const nlohmann::ordered_json& data) {
    const std::string json = data.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
    std::string script;
    script.reserve(json.size());
    for (char sign : json) {
        if (sign == '<')
            script += "\\u003c";
        else if (sign == '>')
            script += "\\u003e";
        else if (sign == '&')
            script += "\\u0026";
        else
            script += sign;
    }
    return script;
}

std::string join(const std::vector<std::string_view>& files) {
    std::string text;
    for (std::string_view file : files) text += report_part(file);
    return text;
}

}  // namespace

std::string html_page(const HtmlPage& page, const nlohmann::ordered_json& data) {
    const auto value = [&](std::string_view slot) {
        if (slot == "version") return std::string{version_text};
        if (slot == "title") return std::string{page.title};
        if (slot == "style") return join(page.styles);
        if (slot == "body") return std::string{report_part(page.body)};
        if (slot == "script") return join(page.scripts);
        return to_script(data);
    };
    std::string_view rest = report_part("page.html");
    std::string html;
    for (std::size_t open = rest.find("{{"); open != std::string_view::npos; open = rest.find("{{")) {
        const std::size_t close = rest.find("}}", open);
        html += rest.substr(0, open);
        html += value(rest.substr(open + 2, close - open - 2));
        rest.remove_prefix(close + 2);
    }
    return html += rest;
}

}  // namespace tpx::cli
