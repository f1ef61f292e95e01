// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/deciding_settings.hpp"

#include "lib/layout/condition.hpp"
#include "lib/layout/dims.hpp"

#include <fmt/format.h>

#include <cctype>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx {
namespace {

/// The alternatives of a condition, which `|` separates outside parentheses.
std::vector<std::string> condition_alternatives(std::string_view condition) {
    std::vector<std::string> found{""};
    int depth = 0;
    for (const char c : condition) {
        depth += c == '(' ? 1 : c == ')' ? -1 : 0;
        if (c == '|' && depth == 0)
            found.emplace_back();
        else
            found.back() += c;
    }
    return found;
}

/// Finds the settings that say whether a model has a tensor in a layer.
class DecidingSettings {
public:
    DecidingSettings(const Reading& reading, const Places& model, Index layer)
        : reading_{reading}, model_{model}, layer_{layer} {}

    /// Those that the first known alternative of the condition for tensor `name` depends on, each as "KEY = VALUE", or
    /// as KEY if it is a list.
    std::set<std::string> of(const std::string& name) {
        add(name);
        return std::move(settings_);
    }

private:
    void add(const std::string& name) {
        const auto conditions = reading_.family->present.find(name);
        if (conditions == reading_.family->present.end() || !seen_.insert(name).second) return;
        const std::string* condition = formula_for(conditions->second, reading_.dialect->name);
        for (const std::string& alternative : condition_alternatives(condition ? *condition : "")) {
            const auto lookup = [&](std::string_view word) { return value_of(word); };
            if (alternative.empty() || !evaluate_condition(alternative, lookup, reading_.lists)) continue;
            add_words(alternative + " ");
            return;
        }
    }

    void add_words(const std::string& text) {
        for (std::size_t begin = 0, k = 0; k < text.size(); ++k) {
            if (std::isalnum(static_cast<unsigned char>(text[k])) || text[k] == '_' || text[k] == '.') continue;
            const std::string word = text.substr(begin, k - begin);
            begin = k + 1;
            const auto value = reading_.config.find(word);
            if (value != reading_.config.end())
                settings_.insert(reading_.lists.find(word) ? word
                                                           : fmt::format("{} = {}", word, value_text(value->second)));
            else
                add(word);
        }
    }

    std::optional<ConfigValue> value_of(std::string_view word) const {
        if (word == "l") return layer_;
        if (word.size() == 1) {  // a size or, like q, a tensor
            if (const auto size = reading_.dims[word[0]]) return *size;
        }
        if (reading_.family->tensors.contains(word)) {
            const auto places = model_.find(word);
            return places != model_.end() && has_layer(places->second, layer_);
        }
        const auto found = reading_.config.find(word);
        if (found == reading_.config.end()) return std::nullopt;
        return found->second;
    }

    const Reading& reading_;
    const Places& model_;
    Index layer_;
    std::set<std::string> seen_, settings_;
};

}  // namespace

std::set<std::string> deciding_settings(const Reading& reading, const Places& model, Index layer,
                                        const std::string& name) {
    return DecidingSettings{reading, model, layer}.of(name);
}

}  // namespace tpx
