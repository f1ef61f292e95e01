// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/error.hpp"
#include "lib/layout/family.hpp"

#include <toml++/toml.h>

#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// The text in `node`. Throws Error "line N: WHAT must be a string".
std::string text_of(const toml::node& node, std::string_view what);

/// The texts in a list. Throws Error "line N: WHAT must be a list of strings".
std::vector<std::string> texts_of(const toml::node& node, std::string_view what);

/// Calls `each(key, node)` for the entries of the table `parent[key]`, if there is one. Throws Error if it is not a
/// table.
template <class Each>
void for_each_in(const toml::table& parent, std::string_view key, Each&& each) {
    const toml::node* node = parent.get(key);
    if (!node) return;
    if (!node->is_table()) throw failure("line {}: '{}' must be a table", node->source().begin.line, key);
    for (const auto& [name, value] : *node->as_table()) each(std::string{name.str()}, value);
}

/// The factor in `text`. Throws Error with the line of `node` if it is not one letter.
char letter_of(const std::string& text, const toml::node& node);

/// The words of `text`, separated by spaces.
std::vector<std::string> words_of(std::string_view text);

/// Reads "l (g d) h ; tp=g opt". Throws Error for unknown words and factors.
CanonicalTensor parse_tensor(const std::string& name, std::string_view text);

/// Reads ["PREFIX", "BEFORE"]. Throws Error "line N: cause".
Nesting parse_nesting(const toml::node& node);

}  // namespace tpx
