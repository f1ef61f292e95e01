// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/rule_nodes.hpp"

#include <algorithm>

namespace tpx {

std::string text_of(const toml::node& node, std::string_view what) {
    const auto value = node.value<std::string>();
    if (!value) throw failure("line {}: {} must be a string", node.source().begin.line, what);
    return *value;
}

std::vector<std::string> texts_of(const toml::node& node, std::string_view what) {
    std::vector<std::string> texts;
    const toml::array* array = node.as_array();
    if (!array) throw failure("line {}: {} must be a list of strings", node.source().begin.line, what);
    for (const toml::node& item : *array) texts.push_back(text_of(item, what));
    return texts;
}

char letter_of(const std::string& text, const toml::node& node) {
    if (text.size() != 1) throw failure("line {}: factor '{}' must be one letter", node.source().begin.line, text);
    return text[0];
}

std::vector<std::string> words_of(std::string_view text) {
    std::vector<std::string> words;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(' '), text.size());
        if (end > 0) words.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return words;
}

namespace {

void set_word(CanonicalTensor& tensor, std::string_view word) {
    if (word.starts_with("tp=") && word.size() == 4)
        tensor.tp = word[3];
    else if (word.starts_with("tp=") && word.size() > 4 && word.substr(4) == "@local")
        tensor.local_tp = word[3];
    else if (word == "ep=e")
        tensor.ep = 'e';
    else if (word.starts_with("tie="))
        tensor.tie = word.substr(4);
    else if (word == "first")
        tensor.first = true;
    else if (word == "last")
        tensor.last = true;
    else if (word == "mtp")
        tensor.mtp = true;
    else if (word == "buffer")
        tensor.buffer = true;
    else if (word == "opt")
        tensor.optional = true;
    else
        throw failure("unknown word '{}'; valid words: tp=, ep=e, tie=, first, last, mtp, buffer, opt", word);
}

}  // namespace

CanonicalTensor parse_tensor(const std::string& name, std::string_view text) {
    const std::size_t semicolon = std::min(text.find(';'), text.size());
    CanonicalTensor tensor{.name = name, .axes = parse_axes(text.substr(0, semicolon))};
    for (const std::string& word : words_of(text.substr(std::min(semicolon + 1, text.size())))) set_word(tensor, word);
    for (char letter : {tensor.tp, tensor.local_tp, tensor.ep}) {
        if (letter != 0 && !tensor.has(letter)) throw failure("it has no factor '{}'", letter);
    }
    return tensor;
}

Nesting parse_nesting(const toml::node& node) {
    const std::vector<std::string> texts =
        node.is_array() ? texts_of(node, "an item of nest") : std::vector<std::string>{};
    if (texts.size() != 2)
        throw failure(
            "line {}: an item of nest is two texts, what replaces the bracketed prefix and what stands before "
            "other names",
            node.source().begin.line);
    return {texts[0], texts[1]};
}

}  // namespace tpx
