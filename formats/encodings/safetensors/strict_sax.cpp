// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/safetensors/strict_sax.hpp"

namespace tpx::formats::safetensors {
namespace {

/// CAUSE from nlohmann's "[...] parse error at line 1, column 9: CAUSE; last read: '...'; expected ...".
std::string_view cause(std::string_view message) {
    if (const auto column = message.find("column "); column != message.npos) {
        if (const auto colon = message.find(": ", column); colon != message.npos) message.remove_prefix(colon + 2);
    }
    return message.substr(0, message.find("; last read"));
}

}  // namespace

void StrictSax::parse(std::string_view text) {
    // The parser would take a zero byte for the end of the text and ignore what follows.
    if (const auto zero = text.find('\0'); zero != text.npos) throw failure("not JSON at byte {}: a zero byte", zero);
    nlohmann::json::sax_parse(text.begin(), text.end(), this);
}

bool StrictSax::parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& error) {
    throw failure("not JSON at byte {}: {}", position, cause(error.what()));
}

}  // namespace tpx::formats::safetensors
