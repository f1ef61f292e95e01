// SPDX-License-Identifier: Apache-2.0
#include "formats/state/value_text.hpp"

#include "lib/core/digest.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace tpx::formats {

using torch::Global;
using torch::Kind;
using torch::Value;

std::string real_text(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    std::string text = fmt::format("{}", value);
    return text.find_first_of(".e") == text.npos ? text + ".0" : text;
}

std::string quoted_text(std::string_view text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<std::string> scalar_text(Value value) {
    switch (value.kind()) {
        case Kind::none:
            return "None";
        case Kind::boolean:
            return value.as_bool() ? "True" : "False";
        case Kind::integer:
            return std::to_string(value.as_int());
        case Kind::real:
            return real_text(value.as_real());
        case Kind::string:
            return quoted_text(value.as_string());
        default:
            return std::nullopt;
    }
}

std::string big_integer_text(std::string_view bytes) {
    constexpr std::size_t longest = 512;
    const bool negative = !bytes.empty() && (bytes.back() & 0x80) != 0;
    std::vector<unsigned> digits{0};  // of 10^9, least significant first
    if (bytes.size() > longest) return fmt::format("an int of {} bytes", bytes.size());
    unsigned borrow = 1;
    std::string magnitude{bytes};
    if (negative)
        for (char& byte : magnitude) {
            borrow += static_cast<unsigned char>(~byte);
            byte = static_cast<char>(borrow & 0xff);
            borrow >>= 8;
        }
    for (auto byte = magnitude.rbegin(); byte != magnitude.rend(); ++byte) {
        std::uint64_t carry = static_cast<unsigned char>(*byte);
        for (unsigned& digit : digits) {
            carry += std::uint64_t{digit} << 8;
            digit = static_cast<unsigned>(carry % 1'000'000'000);
            carry /= 1'000'000'000;
        }
        if (carry != 0) digits.push_back(static_cast<unsigned>(carry));
    }
    std::string text = fmt::format("{}{}", negative ? "-" : "", digits.back());
    for (std::size_t k = digits.size() - 1; k-- > 0;) text += fmt::format("{:09}", digits[k]);
    return text;
}

std::string key_text(Value key) {
    switch (key.kind()) {
        case Kind::string:
            return std::string{key.as_string()};
        case Kind::integer:
            return std::to_string(key.as_int());
        case Kind::tuple: {
            std::string text;
            for (std::size_t i = 0; i < key.items().size() && i < 8; ++i)
                text += (i > 0 ? ", " : "") + (key.items()[i].is(Kind::tuple) ? "(...)" : key_text(key.items()[i]));
            return "(" + text + ")";
        }
        default:
            return key.describe();
    }
}

std::string global_text(Value value) {
    const Global global = value.as_global();
    return fmt::format("{}.{}", global.module, global.name);
}

std::string bytes_text(std::string_view bytes) { return fmt::format("{} bytes {}", bytes.size(), digest_of(bytes)); }

std::string config_text(const ConfigValue& value) {
    return std::visit(
        [](const auto& held) -> std::string {
            using Held = std::decay_t<decltype(held)>;
            if constexpr (std::is_same_v<Held, std::nullptr_t>)
                return "None";
            else if constexpr (std::is_same_v<Held, bool>)
                return held ? "True" : "False";
            else if constexpr (std::is_same_v<Held, std::int64_t>)
                return std::to_string(held);
            else if constexpr (std::is_same_v<Held, double>)
                return real_text(held);
            else
                return quoted_text(held);
        },
        value);
}

}  // namespace tpx::formats
