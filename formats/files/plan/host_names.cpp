// SPDX-License-Identifier: Apache-2.0
#include "formats/files/plan/host_names.hpp"

#include "lib/core/error.hpp"

#include <charconv>
#include <cstdint>

namespace tpx::formats {
namespace {

constexpr std::size_t most_names = 1'000'000;

Error toml_error(std::string_view list, std::string_view cause) {
    return Error{Exit::usage, "hosts '{}': {}", list, cause};
}

// Removes the text before the first `separator` outside brackets, and the separator, from `rest`; returns the text.
std::string_view take_item(std::string_view& rest, char separator) {
    int depth = 0;
    std::size_t at = 0;
    for (; at < rest.size() && (depth > 0 || rest[at] != separator); ++at) {
        depth += rest[at] == '[';
        depth -= rest[at] == ']';
    }
    const std::string_view item = rest.substr(0, at);
    rest.remove_prefix(std::min(at + 1, rest.size()));
    return item;
}

std::uint64_t number(std::string_view text, std::string_view list) {
    std::uint64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc{} || end != text.data() + text.size() || text.size() > 9)
        throw toml_error(list, fmt::format("'{}' is not a number", text));
    return value;
}

// Appends the numbers of a range such as "001-003" or "7" to `names`.
void expand_range(std::string_view range, std::string_view list, std::vector<std::string>& names) {
    const std::string_view first = range.substr(0, range.find('-'));
    const std::string_view last = range.size() > first.size() ? range.substr(first.size() + 1) : first;
    const std::uint64_t begin = number(first, list);
    const std::uint64_t end = number(last, list);
    if (end < begin) throw toml_error(list, fmt::format("the range '{}' runs backwards", range));
    if (end - begin >= most_names) throw toml_error(list, fmt::format("more than {} names", most_names));
    for (std::uint64_t n = begin; n <= end; ++n) names.push_back(fmt::format("{:0{}}", n, first.size()));
}

// All concatenations of one of `heads` and one of `tails`.
std::vector<std::string> join(const std::vector<std::string>& heads, const std::vector<std::string>& tails,
                              std::string_view list) {
    if (heads.size() * tails.size() > most_names) throw toml_error(list, fmt::format("more than {} names", most_names));
    std::vector<std::string> all;
    for (const std::string& head : heads) {
        for (const std::string& tail : tails) all.push_back(head + tail);
    }
    return all;
}

std::vector<std::string> expand_item(std::string_view item, std::string_view list) {
    std::vector<std::string> names{""};
    while (!item.empty()) {
        const std::size_t open = std::min(item.find('['), item.size());
        if (item.substr(0, open).find(']') != item.npos) throw toml_error(list, "']' without '['");
        names = join(names, {std::string{item.substr(0, open)}}, list);
        item.remove_prefix(open);
        if (item.empty()) break;
        const std::size_t close = item.find(']');
        if (close == item.npos) throw toml_error(list, "'[' without ']'");
        std::vector<std::string> numbers;
        for (std::string_view ranges = item.substr(1, close - 1); !ranges.empty();)
            expand_range(take_item(ranges, ','), list, numbers);
        names = join(names, numbers, list);
        item.remove_prefix(close + 1);
    }
    return names;
}

// A name split into a stem and the number at its end, such as "n" and "007". If there is no number, or if it is too
// long, the whole name is the stem.
struct NumberedName {
    std::string_view stem, digits;

    explicit NumberedName(std::string_view name) : stem{name} {
        const std::size_t end = name.find_last_not_of("0123456789") + 1;  // npos + 1 is 0
        if (end == name.size() || name.size() - end > 9) return;
        stem = name.substr(0, end);
        digits = name.substr(end);
    }
    bool follows(const NumberedName& before, std::string_view list) const {
        return !digits.empty() && stem == before.stem && digits.size() == before.digits.size() &&
               number(digits, list) == number(before.digits, list) + 1;
    }
};

}  // namespace

std::vector<std::string> expand_host_names(std::string_view list) {
    std::vector<std::string> all;
    for (std::string_view rest = list; !rest.empty();) {
        const std::string_view item = take_item(rest, ',');
        if (item.empty()) throw toml_error(list, "a name is missing");
        for (std::string& name : expand_item(item, list)) all.push_back(std::move(name));
        if (all.size() > most_names) throw toml_error(list, fmt::format("more than {} names", most_names));
    }
    return all;
}

std::string fold_host_names(const std::vector<std::string>& names) {
    std::string list;
    for (std::size_t first = 0; first < names.size();) {
        const NumberedName begin{names[first]};
        std::size_t last = first;
        while (last + 1 < names.size() && NumberedName{names[last + 1]}.follows(NumberedName{names[last]}, list))
            ++last;
        list += list.empty() ? "" : ",";
        list += first == last ? names[first]
                              : fmt::format("{}[{}-{}]", begin.stem, begin.digits, NumberedName{names[last]}.digits);
        first = last + 1;
    }
    return list;
}

}  // namespace tpx::formats
