// SPDX-License-Identifier: Apache-2.0
#include "cmd/verify/tensors_in_values.hpp"

#include "lib/core/dtype.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::cli {
namespace {

using Difference = Comparison::Difference;

/// The values that only side `has` stores, by path: numbers of their differences.
std::multimap<std::string_view, std::size_t> values_of(const std::vector<Difference>& differences, char has) {
    std::multimap<std::string_view, std::size_t> values;
    for (std::size_t d = 0; d < differences.size(); ++d)
        if (differences[d].value && differences[d].lacking == (has == 'A' ? 'B' : 'A'))
            values.emplace(differences[d].name, d);
    return values;
}

/// The canonical tensors of `member`, by the names that `names` contains.
std::map<std::string_view, std::size_t> numbers_of(const ComparedCheckpoint& member,
                                                   const std::multimap<std::string_view, std::size_t>& names) {
    std::map<std::string_view, std::size_t> numbers;
    const formats::CanonicalTensors& canonical = member.digested.canonical;
    for (std::size_t t = 0; t < canonical.tensors.size(); ++t)
        if (const auto found = names.find(canonical.stored_name(t)); found != names.end())
            numbers.insert_or_assign(found->first, t);
    return numbers;
}

/// The text by which a value that contains the tensor names it.
std::string text_of(const ComparedCheckpoint& member, std::size_t t) {
    const Tensor& tensor = member.digested.canonical.tensors[t];
    return fmt::format("tensor {} {} {}", name(tensor.dtype), to_string(tensor.shape),
                       to_string(member.digested.digests[t]));
}

/// Marks, in `matched`, the differences about tensors that only `member` stores and side `has` has inside a value.
void match(const ComparedCheckpoint& member, char has, Comparison& result, std::vector<bool>& matched) {
    const std::vector<Difference>& all = result.differences;
    const auto values = values_of(all, has);
    if (values.empty()) return;
    const auto numbers = numbers_of(member, values);
    for (std::size_t d = 0; d < all.size(); ++d) {
        const auto number = numbers.find(all[d].name);
        if (all[d].value || all[d].lacking != has || number == numbers.end()) continue;
        const std::string text = text_of(member, number->second);
        const auto [first, last] = values.equal_range(all[d].name);
        const auto same = std::find_if(first, last, [&](const auto& value) {
            return (has == 'A' ? all[value.second].a : all[value.second].b) == text;
        });
        if (same == last) continue;
        matched[d] = matched[same->second] = true;
        ++result.compared;
    }
}

}  // namespace

void match_tensors_in_values(const ComparedCheckpoint& a, const ComparedCheckpoint& b, Comparison& result) {
    std::vector<bool> matched(result.differences.size());
    match(a, 'B', result, matched);
    match(b, 'A', result, matched);
    std::size_t d = 0;
    std::erase_if(result.differences, [&](const Difference&) { return matched[d++]; });
}

}  // namespace tpx::cli
