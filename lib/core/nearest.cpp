// SPDX-License-Identifier: Apache-2.0
#include "lib/core/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace tpx {
namespace {

char lower(char c) { return char(std::tolower(static_cast<unsigned char>(c))); }

// The number of edits (insertions, deletions, replacements, swaps of neighbors) that turn `a` into `b`, ignoring case.
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
    for (std::size_t i = 0; i <= a.size(); ++i) {
        for (std::size_t j = 0; j <= b.size(); ++j) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            const bool same = lower(a[i - 1]) == lower(b[j - 1]);
            d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (same ? 0 : 1)});
            const bool swapped =
                i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
            if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[a.size()][b.size()];
}

std::string_view bare(std::string_view word) { return word.substr(std::min(word.find_first_not_of('-'), word.size())); }

}  // namespace

std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
    constexpr std::size_t longest = 64;  // names are short; a longer word is not a misspelled name
    const std::string_view meant = bare(word);
    if (meant.empty() || meant.size() > longest) return {};
    std::vector<std::pair<std::size_t, std::string>> near;
    for (const std::string& candidate : candidates) {
        const std::string_view name = bare(candidate);
        const bool begun = meant.size() >= 2 && name.starts_with(meant);
        const std::size_t edits = begun ? 0 : distance(meant, name);
        if (begun || edits <= std::max<std::size_t>(1, name.size() / 3)) near.emplace_back(edits, candidate);
    }
    std::ranges::stable_sort(near, {}, &std::pair<std::size_t, std::string>::first);
    std::vector<std::string> names;
    for (auto& [edits, name] : near)
        if (names.size() < 3 && edits <= near.front().first + 1) names.push_back(std::move(name));
    return names;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
    std::vector<std::string> names = nearest(word, candidates);
    if (names.empty()) return {};
    for (std::string& name : names) name = fmt::format("'{}'", name);
    return fmt::format("; did you mean {}?", one_of(names));
}

std::string one_of(const std::vector<std::string>& words) {
    std::string text;
    for (std::size_t i = 0; i < words.size(); ++i)
        text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
    return text;
}

}  // namespace tpx
