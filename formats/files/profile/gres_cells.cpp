// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/gres_cells.hpp"

#include "lib/core/error.hpp"
#include "lib/core/lower_case.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string>

namespace tpx::formats::cells {
namespace {

constexpr int most_on_host = 64, most_of_job = 1 << 17;

// Parses `digits`; unset unless all of it is a number.
std::optional<int> whole_count(std::string_view digits) {
    int count = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
    return code == std::errc{} && end == digits.data() + digits.size() ? std::optional{count} : std::nullopt;
}

// Whether `text` names a type of GPU: "a100", but not a name that sacct truncated ("a100+"), nor "8K".
bool is_type(std::string_view text) {
    return !text.empty() && std::isalpha(static_cast<unsigned char>(text[0])) != 0 && text.back() != '+';
}

// The count in what follows "gpu" in an entry: "", ":8", "=8", ":a100", ":a100:8" or ":a100=8". Without a count, it is
// 1. TRES, which have '=', are of the whole job.
int count_of(std::string_view entry) {
    const std::size_t at = entry.find_last_of(":=");
    const std::string_view last = at == entry.npos ? std::string_view{} : entry.substr(at + 1);
    if (entry.empty() || (at == 0 && entry[0] == ':' && is_type(last))) return 1;
    const auto count = whole_count(last);
    if (!count || *count < 0 || *count > (entry[at] == '=' ? most_of_job : most_on_host))
        throw failure("'gpu{}' has no valid number of GPUs; use gpu:N or gpu:TYPE:N with at most {}, or gres/gpu=N",
                      entry, most_on_host);
    return *count;
}

// Removes the first entry from a list separated by commas, and returns it in lower case, without blanks and what
// parentheses enclose.
std::string take_entry(std::string_view& list) {
    std::string entry;
    int depth = 0;
    std::size_t i = 0;
    for (; i < list.size() && (depth > 0 || list[i] != ','); ++i) {
        if (list[i] == '(') ++depth;
        if (depth == 0 && list[i] != ' ') entry += list[i];
        if (list[i] == ')' && depth > 0) --depth;
    }
    list.remove_prefix(std::min(i + 1, list.size()));
    return lower_case(entry);
}

}  // namespace

std::optional<int> gres_gpus(std::string_view text) {
    constexpr std::string_view name = "gpu";
    std::optional<int> all, typed;
    while (!text.empty()) {
        const std::string entry = take_entry(text);
        std::string_view rest = entry;
        for (const std::string_view group : {"gres/", "gres:"})
            if (rest.starts_with(group)) rest.remove_prefix(group.size());
        if (!rest.starts_with(name)) continue;
        rest.remove_prefix(name.size());
        if (!rest.empty() && rest[0] != ':' && rest[0] != '=') continue;
        // TRES contain the number of all GPUs and, again, that of each type.
        const bool is_typed =
            rest.size() > 1 &&
            (rest[0] == ':' && (rest[1] < '0' || rest[1] > '9' || rest.find_first_of(":=", 1) != rest.npos));
        std::optional<int>& sum = is_typed ? typed : all;
        sum = sum.value_or(0) + count_of(rest);
    }
    return all ? all : typed;
}

std::optional<int> tres_hosts(std::string_view text) {
    constexpr std::string_view name = "node=";
    while (!text.empty()) {
        const std::string entry = take_entry(text);
        if (!entry.starts_with(name)) continue;
        const auto hosts = whole_count(std::string_view{entry}.substr(name.size()));
        if (!hosts || *hosts < 1) throw failure("'{}' is not a number of hosts", entry);
        return hosts;
    }
    return std::nullopt;
}

}  // namespace tpx::formats::cells
