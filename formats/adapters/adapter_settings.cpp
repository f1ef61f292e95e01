// SPDX-License-Identifier: Apache-2.0
#include "formats/adapters/adapter_settings.hpp"

#include "formats/settings/config_file.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <optional>
#include <regex>

namespace tpx::formats {
namespace {

using Json = nlohmann::ordered_json;

bool is_alnum(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// A part of a pattern: a character, `.` for any character, `*` for any run, `d` for digits.
struct Token {
    enum class Kind : std::uint8_t { letter, any, run, digits } kind = Kind::letter;
    char letter = 0;
};

/// Nothing for a pattern with other signs.
std::optional<std::vector<Token>> tokens_of(std::string_view pattern) {
    std::vector<Token> tokens;
    for (std::size_t at = 0; at < pattern.size(); ++at) {
        const std::string_view rest = pattern.substr(at);
        const auto take = [&](std::size_t length, Token token) {
            tokens.push_back(token);
            at += length - 1;
        };
        const bool is_word = is_alnum(rest[0]) || rest[0] == '_' || rest[0] == '-';
        if (is_word)
            take(1, {Token::Kind::letter, rest[0]});
        else if (rest.starts_with(".*"))
            take(2, {Token::Kind::run});
        else if (rest.starts_with("\\d+"))
            take(3, {Token::Kind::digits});
        else if (rest.starts_with("\\."))
            take(2, {Token::Kind::letter, '.'});
        else if (rest[0] == '.')
            take(1, {Token::Kind::any});
        else
            return std::nullopt;
        const bool repeated = at + 1 < pattern.size() && std::string_view{"*+?{"}.find(pattern[at + 1]) != pattern.npos;
        if (repeated) return std::nullopt;
    }
    return tokens;
}

/// Whether `tokens` match all of `text`. Tracks the set of positions in `text` that are reachable after each token.
bool matches_all(const std::vector<Token>& tokens, std::string_view text) {
    std::vector<bool> reached(text.size() + 1, false);
    reached[0] = true;
    for (const Token& token : tokens) {
        std::vector<bool> next(reached.size(), false);
        bool within = false;  // a run, or digits after the first
        for (std::size_t at = 0; at < reached.size(); ++at) {
            if (token.kind == Token::Kind::run) {
                within = within || reached[at];
                next[at] = within;
                continue;
            }
            if (at == text.size() || !(reached[at] || (token.kind == Token::Kind::digits && next[at]))) continue;
            const bool fits = token.kind == Token::Kind::any ||
                              (token.kind == Token::Kind::letter && text[at] == token.letter) ||
                              (token.kind == Token::Kind::digits && std::isdigit(static_cast<unsigned char>(text[at])));
            if (fits) next[at + 1] = true;
        }
        reached = std::move(next);
    }
    return reached[text.size()];
}

/// The same for a pattern that means the same in Python and in C++.
bool matches_expression(std::string_view pattern, std::string_view module) {
    constexpr std::string_view signs = "._-\\()[]|?*+{},^$:=!";
    constexpr std::string_view classes = "dDwWsSbB";  // the letters after a backslash
    bool differs = pattern.size() > 1000 || module.size() > 1000;
    for (std::size_t at = 0; at < pattern.size(); ++at) {
        const char next = at + 1 < pattern.size() ? pattern[at + 1] : ' ';
        if (!is_alnum(pattern[at]) && signs.find(pattern[at]) == signs.npos) differs = true;
        if (std::string_view{"?*+}"}.find(pattern[at]) != std::string_view::npos && next == '+') differs = true;
        if (pattern[at] == '\\' && is_alnum(next) && classes.find(next) == classes.npos) differs = true;
        if (pattern[at] == '\\') ++at;
    }
    const auto unsupported = [&] { return failure("'{}' is a regular expression that tpx does not support", pattern); };
    if (differs) throw unsupported();
    try {
        const std::regex expression{fmt::format("(.*\\.)?({})$", pattern)};
        return std::regex_match(module.begin(), module.end(), expression);
    } catch (const std::regex_error&) {
        throw unsupported();
    }
}

double number_of(const AdapterSettings::Patterns& patterns, std::string_view module, double usual) {
    for (const auto& [pattern, value] : patterns)
        if (matches_module(pattern, module)) return value;
    return usual;
}

/// The member `key`, or `usual` if it is absent or null. Throws Error if it is not a `T`.
template <class T>
T setting(const Json& json, const char* key, T usual) {
    const auto found = json.find(key);
    if (found == json.end() || found->is_null()) return usual;
    try {
        return found->get<T>();
    } catch (const Json::exception&) {
        throw failure("{}: {} is not of the type that PEFT writes", key, found->dump().substr(0, 40));
    }
}

AdapterSettings::Patterns patterns_of(const Json& json, const char* key) {
    AdapterSettings::Patterns patterns;
    const Json stored = json.value(key, Json{});
    if (!stored.is_object()) return patterns;
    for (const auto& [pattern, value] : stored.items()) {
        if (!value.is_number())
            throw failure("{}: '{}' has {}, not a number", key, pattern, value.dump().substr(0, 40));
        patterns.emplace_back(pattern, value.get<double>());
    }
    return patterns;
}

bool in_use(const Json& value) {
    const bool off = value.is_null() || value == false || (value.is_structured() && value.empty());
    return !off;
}

/// Settings in use that affect the merged weights in a way that MergedWeight does not describe.
std::vector<std::string> unmergeable(const Json& json) {
    constexpr std::array keys{"layer_replication",
                              "use_qalora",
                              "alora_invocation_tokens",
                              "trainable_token_indices",
                              "kasa_config",
                              "use_bdlora",
                              "arrow_config",
                              "monteclora_config",
                              "lora_bias",
                              "velora_config"};
    std::vector<std::string> found;
    for (const char* key : keys)
        if (json.contains(key) && in_use(json.at(key))) found.emplace_back(key);
    // gaussian, orthogonal and eva only set the adapter's initial values; the others also change the base's weights.
    const Json begun = json.value("init_lora_weights", Json(true));
    if (begun.is_string() && begun != "gaussian" && begun != "orthogonal" && begun != "eva")
        found.push_back(fmt::format("init_lora_weights={}", begun.get<std::string>()));
    return found;
}

/// The entries of the list `key`, sorted, or its one pattern.
std::vector<std::string> names_of(const Json& json, const char* key) {
    const Json targets = json.value(key, Json{});
    std::vector<std::string> names;
    if (targets.is_string()) names.push_back(targets);
    for (const Json& name : targets.is_array() ? targets : Json::array())
        if (name.is_string()) names.push_back(name);
    std::ranges::sort(names);
    return names;
}

AdapterSettings settings_of(const Json& json) {
    if (!json.is_object()) throw failure("not a JSON object");
    const auto type = setting<std::string>(json, "peft_type", "");
    if (type != "LORA") throw failure("unsupported peft_type '{}'; use an adapter of type LORA", type);
    AdapterSettings made;
    made.base = setting<std::string>(json, "base_model_name_or_path", "");
    made.rank = setting<std::int64_t>(json, "r", made.rank);
    made.alpha = setting<double>(json, "lora_alpha", made.alpha);
    made.rank_stabilized = setting(json, "use_rslora", false);
    made.dora = setting(json, "use_dora", false);
    made.transposed = setting(json, "fan_in_fan_out", false);
    made.ranks = patterns_of(json, "rank_pattern");
    made.alphas = patterns_of(json, "alpha_pattern");
    made.targets = names_of(json, "target_modules");
    made.parameters = names_of(json, "target_parameters");
    made.unmergeable = unmergeable(json);
    return made;
}

}  // namespace

bool matches_module(std::string_view pattern, std::string_view module) {
    const bool anchored = pattern.starts_with('^');
    const auto tokens = tokens_of(pattern.substr(anchored ? 1 : 0));
    if (!tokens) return matches_expression(pattern, module);
    if (matches_all(*tokens, module)) return true;
    for (std::size_t dot = module.find('.'); dot != module.npos && !anchored; dot = module.find('.', dot + 1))
        if (matches_all(*tokens, module.substr(dot + 1))) return true;
    return false;
}

std::int64_t AdapterSettings::rank_of(std::string_view module) const {
    return std::llround(number_of(ranks, module, static_cast<double>(rank)));
}

double AdapterSettings::scale(std::string_view module, std::int64_t own_rank) const {
    const auto divisor = static_cast<double>(own_rank);
    return number_of(alphas, module, alpha) / (rank_stabilized ? std::sqrt(divisor) : divisor);
}

AdapterSettings read_adapter_settings(const std::filesystem::path& path) {
    const Json json = Json::parse(read_file(path, max_config_bytes), nullptr, false);
    return in_context([&] { return path.string(); }, [&] { return settings_of(json); });
}

}  // namespace tpx::formats
