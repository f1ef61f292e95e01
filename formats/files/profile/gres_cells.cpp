// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/gres_cells.hpp"

#include "lib/core/error.hpp"
#include "lib/core/lower_case.hpp"

#include <algorithm>
#include <charconv>
#include <string>

namespace tpx::formats::cells {
namespace {

// The count of an entry without "gpu": of "", ":8", "=8", ":a100", ":a100:8" or ":a100=8". An omitted count is 1.
int count_of(std::string_view entry) {
    const std::size_t at = entry.find_last_of(":=");
    const std::string_view digits = at == entry.npos ? std::string_view{} : entry.substr(at + 1);
    const bool has_type_only = at == 0 && entry[0] == ':' && digits.find_first_not_of("0123456789") != digits.npos;
    if (entry.empty() || has_type_only) return 1;
    int count = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
    if (code != std::errc{} || end != digits.data() + digits.size() || count > 1 << 17)
        throw failure("'gpu{}' has no number of GPUs", entry);
    return count;
}

// Removes the first entry from a list separated by commas, and returns it without what parentheses enclose.
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
    constexpr std::string_view group = "gres/", name = "gpu";
    std::optional<int> all, typed;
    while (!text.empty()) {
        const std::string entry = take_entry(text);
        std::string_view rest = entry;
        if (rest.starts_with(group)) rest.remove_prefix(group.size());
        if (rest.starts_with("gres:")) rest.remove_prefix(group.size());
        if (!rest.starts_with(name)) continue;
        rest.remove_prefix(name.size());
        if (!rest.empty() && rest[0] != ':' && rest[0] != '=') continue;
        // TRES list the GPUs of all types together, and those of each type again.
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
        int hosts = 0;
        const auto [end, code] = std::from_chars(entry.data() + name.size(), entry.data() + entry.size(), hosts);
        if (code == std::errc{} && end == entry.data() + entry.size() && hosts > 0) return hosts;
    }
    return std::nullopt;
}

}  // namespace tpx::formats::cells
