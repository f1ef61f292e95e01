// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/remainders.hpp"

#include "lib/layout/dims.hpp"
#include "lib/layout/size_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

namespace tpx {
namespace {

constexpr std::string_view alternative_mark = " | ";

std::vector<std::string_view> alternatives_of(std::string_view formula) {
    std::vector<std::string_view> found;
    while (!formula.empty()) {
        found.push_back(formula.substr(0, formula.find(alternative_mark)));
        formula.remove_prefix(std::min(formula.size(), found.back().size() + alternative_mark.size()));
    }
    return found;
}

/// The factors of the stored tensors.
std::set<char> stored_factors(const Reading& reading) {
    std::set<char> letters;
    for (const Meaning& meaning : reading.meanings) {
        if (meaning.kind != Meaning::Kind::parameter) continue;
        for (const std::string& part : meaning.rule->expression.parts)
            for (const Axis& axis : reading.family->tensor(part).axes)
                for (const Token token : axis) letters.insert(token.letter);
    }
    return letters;
}

/// What is wrong with "A / B", if B does not divide A.
std::string remainder_of(const Reading& reading, std::string_view quotient) {
    constexpr std::string_view mark = " / ";
    const std::size_t at = quotient.find(mark);
    if (at == quotient.npos) return "";
    const std::string_view above = quotient.substr(0, at), below = quotient.substr(at + mark.size());
    // A longer formula or one with a condition is not a plain quotient.
    for (const std::string_view other : {" + ", " - ", " * ", " / ", " if "})
        if (above.find(other) != above.npos || below.find(other) != below.npos) return "";
    const auto a = reading.dims.evaluate(above, reading.config);
    const auto b = reading.dims.evaluate(below, reading.config);
    if (!a || !b || (*b > 0 && *a % *b == 0)) return "";
    return fmt::format("{} is not a multiple of {}", size_text(reading, above), size_text(reading, below));
}

}  // namespace

std::string remainder_in_sizes(const Reading& reading) {
    for (const char letter : stored_factors(reading)) {
        const auto formulas = reading.family->dims.find(letter);
        if (formulas == reading.family->dims.end() || reading.family->varies(letter)) continue;
        const std::string* formula = formula_for(formulas->second, reading.source());
        std::string first;
        for (const std::string_view alternative :
             formula ? alternatives_of(*formula) : std::vector<std::string_view>{}) {
            if (reading.dims.evaluate(alternative, reading.config)) {
                first.clear();
                break;
            }
            if (first.empty()) first = remainder_of(reading, alternative);
        }
        if (!first.empty()) return first;
    }
    return "";
}

}  // namespace tpx
