// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/log_line.hpp"

#include "formats/files/profile/logs/log_text.hpp"

#include <algorithm>

namespace tpx::formats {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

std::string_view without_blanks(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    return text;
}

std::size_t digits(std::string_view text) {
    return static_cast<std::size_t>(std::ranges::find_if_not(text, is_digit) - text.begin());
}

// "[rank3]:" of torchrun, "[Rank 0]" of DeepSpeed, "[2026-11-22 12:04:14,166]", "[INFO]", "[NeMo I ...]".
bool take_brackets(std::string_view& text, LogLine& line) {
    constexpr std::size_t longest = 120;
    const std::size_t end = text.starts_with('[') ? text.substr(0, longest).find(']') : text.npos;
    if (end == text.npos) return false;
    const std::string_view inside = text.substr(1, end - 1);
    for (const std::string_view name : {"rank", "default"})
        if (inside.starts_with(name) && digits(inside.substr(name.size())) + name.size() == inside.size())
            line.stream = inside;
    if (contains(inside, ".py:")) line.origin = inside;
    text.remove_prefix(end + 1);
    for (const std::string_view pipe : {"<stdout>", "<stderr>"}) {
        if (!text.starts_with(pipe)) continue;
        line.stream = inside;
        text.remove_prefix(pipe.size());
    }
    if (text.starts_with(':')) text.remove_prefix(1);
    return true;
}

// "(RayTrainWorker pid=123, ip=10.0.0.2) " of Ray.
bool take_process(std::string_view& text, LogLine& line) {
    constexpr std::size_t longest = 120;
    const std::size_t end = text.starts_with('(') ? text.substr(0, longest).find(") ") : text.npos;
    if (end == text.npos || !contains(text.substr(0, end), " pid=")) return false;
    line.stream = text.substr(1, end - 1);
    text.remove_prefix(end + 2);
    return true;
}

// Whether `text` is "  key ..... value".
bool is_argument(std::string_view text) {
    const std::string_view key = without_blanks(text);
    const auto end = std::ranges::find_if_not(key, [](char c) { return is_letter(c) || is_digit(c); });
    return text.starts_with("  ") && !key.empty() && is_letter(key.front()) &&
           std::string_view{end, key.end()}.starts_with(" ..");
}

// Whether `word`, which a colon and `behind` follow, is the name or address of a host. A word without digits may also
// be the name of a setting; it is a host if `behind` begins with a bracket or is an argument.
bool is_host(std::string_view word, std::string_view behind) {
    const auto is_part = [](char c) { return (is_letter(c) && c != '_') || is_digit(c) || c == '-' || c == '.'; };
    if (word.empty() || !std::ranges::all_of(word, is_part)) return false;
    return std::ranges::any_of(word, is_digit) || behind.starts_with('[') || is_argument(behind);
}

// "12: " of srun --label, "host1: " of pdsh, "name/0 [" of NeMo-Run.
bool take_label(std::string_view& text, LogLine& line) {
    if (const std::size_t count = digits(text); count > 0 && text.substr(count, 2) == ": ") {
        line.stream = text.substr(0, count);
        text.remove_prefix(count + 2);
        return true;
    }
    const std::size_t blank = text.find(' ');
    if (blank == text.npos || blank == 0) return false;
    const std::string_view word = text.substr(0, blank);
    const bool is_task = is_letter(word.front()) && contains(word, "/") && is_digit(word.back());
    const bool has_host = word.back() == ':' && is_host(word.substr(0, blank - 1), text.substr(blank + 1));
    if (!is_task && !has_host) return false;
    text.remove_prefix(blank + 1);
    return true;
}

// "11/25/2026".
bool is_american_date(std::string_view text) {
    return digits(text) == 2 && text.substr(2, 1) == "/" && digits(text.substr(3)) == 2 && text.substr(5, 1) == "/" &&
           digits(text.substr(6)) == 4;
}

// "2026-11-25 19:44:55,287 ", "2026-11-25T19:44:55Z ", "11/25/2026 19:44:55 ".
bool take_time(std::string_view& text) {
    const bool is_date = digits(text) == 4 && text.substr(4, 1) == "-" && digits(text.substr(5)) == 2;
    if (!is_date && !is_american_date(text)) return false;
    text.remove_prefix(std::min(text.find(' '), text.size()));
    text = without_blanks(text);
    if (digits(text) == 2 && text.substr(2, 1) == ":") text.remove_prefix(std::min(text.find(' '), text.size()));
    return true;
}

std::string_view take_prefixes(std::string_view text, LogLine& line) {
    constexpr int most = 12;
    for (int i = 0; i < most; ++i) {
        text = without_blanks(text);
        if (!take_brackets(text, line) && !take_process(text, line) && !take_label(text, line) && !take_time(text))
            break;
    }
    return text;
}

// The value without a remark such as "  (Mcore default: 1)", the comma of JSON, and quotes.
std::string_view plain_value(std::string_view value) {
    value = value.substr(0, std::min(value.find("  ("), value.size()));
    while (!value.empty() && (value.back() == ' ' || value.back() == ',' || value.back() == '\t'))
        value.remove_suffix(1);
    value = without_blanks(value);
    const bool quoted = value.size() >= 2 && (value.front() == '"' || value.front() == '\'');
    return quoted && value.back() == value.front() ? value.substr(1, value.size() - 2) : value;
}

// The value without GPT-NeoX's remark, as in "4...........updated" and "{'stage': 1}updated".
std::string_view without_remark(std::string_view value) {
    for (const std::string_view remark : {"updated", "default"}) {
        if (!value.ends_with(remark)) continue;
        const std::string_view before = value.substr(0, value.size() - remark.size());
        if (!before.ends_with('.') && !before.ends_with('}') && !before.ends_with(']')) continue;
        return before.substr(0, before.find_last_not_of('.') + 1);
    }
    return value;
}

void find_setting(LogLine& line) {
    std::string_view text = line.text;
    const bool quoted = text.starts_with('"');
    if (quoted) text.remove_prefix(1);
    if (text.empty() || !is_letter(text.front())) return;
    const auto end = std::ranges::find_if_not(text, [](char c) { return is_letter(c) || is_digit(c); });
    const std::string_view key{text.begin(), end};
    text.remove_prefix(key.size());
    if (quoted && !text.starts_with('"')) return;
    if (quoted) text.remove_prefix(1);
    const bool is_argument = !quoted && (text.starts_with(" .") || text.starts_with("  "));
    if (!is_argument && !text.starts_with(':')) return;
    line.key = key;
    line.is_argument = is_argument;
    text.remove_prefix(is_argument ? std::min(text.find_first_not_of(" ."), text.size()) : 1);
    line.value = plain_value(text);
    if (is_argument) line.value = without_remark(line.value);
}

}  // namespace

LogLine parse_log_line(std::string_view text) {
    LogLine line;
    line.whole = text;
    line.text = take_prefixes(text, line);
    find_setting(line);
    return line;
}

}  // namespace tpx::formats
