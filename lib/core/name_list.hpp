// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/counted.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx {

/// Names to list in a message: keeps the first five, and counts all.
class NameList {
public:
    static constexpr std::size_t most = 5;

    void add(std::string name) {
        if (names_.size() < most) names_.push_back(std::move(name));
        ++count_;
    }
    /// Counts `more` names that are not listed.
    void add_unnamed(std::uint64_t more) { count_ += more; }

    std::uint64_t count() const { return count_; }

    /// "a", "a, b", "a, b, c, d, e and 37 more".
    std::string text() const {
        const std::uint64_t more = count_ - names_.size();
        return fmt::format("{}{}", fmt::join(names_, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
    }

    /// "a is missing", "2 files are missing: a, b", where `noun` is "file".
    std::string are_missing(std::string_view noun = "file") const {
        return count_ == 1 ? fmt::format("{} is missing", text())
                           : fmt::format("{} are missing: {}", counted(count_, noun), text());
    }

private:
    std::vector<std::string> names_;
    std::uint64_t count_ = 0;
};

/// The numbers from `first` to `last` that `present` lacks, listed as `name(number)`. The time depends on the size of
/// `present`, not on the range, which may come from a damaged file.
template <class Number, class Name>
NameList absent_numbers(const std::set<Number>& present, Number first, Number last, Name name) {
    NameList absent;
    if (last < first) return absent;
    const auto here = std::distance(present.lower_bound(first), present.upper_bound(last));
    const std::uint64_t missing = static_cast<std::uint64_t>(last - first) + 1 - static_cast<std::uint64_t>(here);
    for (Number number = first; absent.count() < std::min<std::uint64_t>(missing, NameList::most); ++number)
        if (!present.contains(number)) absent.add(name(number));
    absent.add_unnamed(missing - absent.count());
    return absent;
}

}  // namespace tpx
