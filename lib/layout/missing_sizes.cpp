// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/dims.hpp"
#include "lib/layout/express.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tpx {
namespace {

/// The configuration keys, except those of single layers, in the first alternative of `formula` that has any.
std::vector<std::string> keys_to_give(std::string_view formula) {
    while (!formula.empty()) {
        const std::string_view alternative = formula.substr(0, formula.find('|'));
        formula.remove_prefix(std::min(formula.size(), alternative.size() + 1));
        std::vector<std::string> keys = formula_words(std::string{alternative.substr(0, alternative.find(" if "))});
        std::erase_if(keys, [](const std::string& key) { return key.size() == 1 || key.find(".l.") != key.npos; });
        if (!keys.empty()) return keys;
    }
    return {};
}

}  // namespace

std::string missing_sizes(const Reading& source) {
    std::set<std::string> needed;
    for (const Meaning& meaning : source.meanings) {
        if (meaning.kind != Meaning::Kind::parameter) continue;
        for (const std::string& part : meaning.rule->expression.parts) {
            for (const Axis& axis : source.family->tensor(part).axes) {
                for (Token token : axis) needed.insert(std::string(1, token.letter));
            }
        }
    }
    needed.erase("l");
    const Dims first = sizes_in_layer(source, 0);
    std::vector<std::string> missing;
    for (bool more = true; more;) {
        more = false;
        for (const auto& [letter, formulas] : source.family->dims) {
            const std::string* by_layer = layer_formula(*source.family, letter, source.source());
            const bool free = source.family->varies(letter) && !by_layer;
            if (first[letter] || free || !needed.contains(std::string(1, letter))) continue;
            const std::string& formula = by_layer ? *by_layer : formulas.begin()->second;
            const std::vector<std::string> words = formula_words(formula);
            for (const std::string& word : words) more |= word.size() == 1 && needed.insert(word).second;
            for (const std::string& key : keys_to_give(formula))
                if (std::ranges::find(missing, key) == missing.end()) missing.push_back(key);
        }
    }
    return fmt::format("{}", fmt::join(missing, ", "));
}

}  // namespace tpx
