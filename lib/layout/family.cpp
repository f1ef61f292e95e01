// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/family.hpp"

#include "lib/core/error.hpp"

#include <toml++/toml.h>

#include <algorithm>

namespace tpx {
namespace {

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

/// Calls `each(key, node)` for the entries of the table `parent[key]`, if there is one.
template <class Each>
void for_each_in(const toml::table& parent, std::string_view key, Each&& each) {
    const toml::node* node = parent.get(key);
    if (!node) return;
    if (!node->is_table()) throw failure("line {}: '{}' must be a table", node->source().begin.line, key);
    for (const auto& [name, value] : *node->as_table()) each(std::string{name.str()}, value);
}

char letter_of(const std::string& text, const toml::node& node) {
    if (text.size() != 1) throw failure("line {}: factor '{}' must be one letter", node.source().begin.line, text);
    return text[0];
}

CanonicalTensor parse_tensor(const std::string& name, const std::string& text) {
    const std::size_t semicolon = std::min(text.find(';'), text.size());
    CanonicalTensor tensor{.name = name, .axes = parse_axes(std::string_view{text}.substr(0, semicolon))};
    std::string_view rest = std::string_view{text}.substr(std::min(semicolon + 1, text.size()));
    while (!rest.empty()) {
        const std::size_t end = std::min(rest.find(' '), rest.size());
        const std::string_view word = rest.substr(0, end);
        rest.remove_prefix(std::min(end + 1, rest.size()));
        if (word.empty()) continue;
        if (word.starts_with("tp=") && word.size() == 4)
            tensor.tp = word[3];
        else if (word.starts_with("tie="))
            tensor.tie = word.substr(4);
        else if (word == "first")
            tensor.first = true;
        else if (word == "last")
            tensor.last = true;
        else if (word == "opt")
            tensor.optional = true;
        else
            throw failure("tensor '{}': word '{}' is not known (tp=, tie=, first, last, opt)", name, word);
    }
    return tensor;
}

Rule parse_rule(const toml::node& node, const std::string& layer) {
    const std::vector<std::string> texts = texts_of(node, "a rule");
    if (texts.size() < 2 || texts.size() > 3)
        throw failure("line {}: a rule is [name, expression] or [name, expression, tags]", node.source().begin.line);
    const std::string name = texts[0].starts_with('.') ? layer + texts[0] : texts[0];
    Rule rule{NameTemplate{name}, parse_expression(texts[1]), {}};
    for (std::string_view rest = texts.size() == 3 ? std::string_view{texts[2]} : std::string_view{}; !rest.empty();) {
        const std::size_t end = std::min(rest.find(' '), rest.size());
        if (end > 0) rule.tags.emplace_back(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return rule;
}

Dialect parse_dialect(const std::string& name, const toml::table& table) {
    Dialect dialect{.name = name};
    const std::string layer = table["layer"].value_or(std::string{});
    if (const toml::node* extra = table.get("extra")) dialect.extra = texts_of(*extra, "extra");
    if (const toml::array* rules = table["rules"].as_array()) {
        for (const toml::node& rule : *rules)
            dialect.rules.push_back(in_context([&] { return fmt::format("line {}", rule.source().begin.line); },
                                               [&] { return parse_rule(rule, layer); }));
    }
    for_each_in(table, "roles", [&](const std::string& role, const toml::node& node) {
        for (std::string& pattern : texts_of(node, "a role")) {
            if (std::ranges::count(pattern, '*') != 1)
                throw failure("line {}: role pattern '{}' must have one '*'", node.source().begin.line, pattern);
            dialect.roles.push_back({role, std::move(pattern)});
        }
    });
    return dialect;
}

ConfigEntry parse_entry(const std::string& key, const toml::node& node) {
    const toml::array* list = node.as_array();
    if (list && list->size() != 1)
        throw failure("line {}: config '{}': a list must have one value", node.source().begin.line, key);
    return {key, text_of(list ? *list->get(0) : node, "a config value"), list != nullptr};
}

void check_rules(const Family& family) {
    for (const Dialect& dialect : family.dialects) {
        for (const Rule& rule : dialect.rules) {
            for (const std::string& part : rule.expression.parts) {
                if (!family.tensors.contains(part))
                    throw failure("dialect '{}': rule '{}': tensor '{}' is not declared", dialect.name,
                                  rule.name.text(), part);
            }
        }
    }
}

Family read_family(const toml::table& table) {
    Family family;
    family.name = table["family"].value_or(std::string{});
    if (family.name.empty()) throw failure("line 1: 'family = \"NAME\"' is missing");
    for_each_in(table, "detect", [&](const std::string& source, const toml::node& node) {
        family.detect[source] = texts_of(node, "detect");
    });
    for_each_in(table, "tied", [&](const std::string& source, const toml::node& node) {
        family.tied[source] = text_of(node, "tied");
    });
    for_each_in(table, "dims", [&](const std::string& factor, const toml::node& node) {
        if (!node.is_table()) throw failure("line {}: factor '{}' must be a table", node.source().begin.line, factor);
        for (const auto& [source, formula] : *node.as_table())
            family.dims[letter_of(factor, node)][std::string{source.str()}] = text_of(formula, "a formula");
    });
    for_each_in(table, "pad", [&](const std::string& dialect, const toml::node& node) {
        if (!node.is_table()) throw failure("line {}: pad.{} must be a table", node.source().begin.line, dialect);
        for (const auto& [factor, formula] : *node.as_table())
            family.pad[dialect][letter_of(std::string{factor.str()}, node)] = text_of(formula, "a formula");
    });
    for_each_in(table, "config", [&](const std::string& dialect, const toml::node& node) {
        if (!node.is_table()) throw failure("line {}: config.{} must be a table", node.source().begin.line, dialect);
        for (const auto& [key, value] : *node.as_table())
            family.config[dialect].push_back(parse_entry(std::string{key.str()}, value));
    });
    for_each_in(table, "divide",
                [&](const std::string&, const toml::node& node) { family.tp_divides = texts_of(node, "divide"); });
    for_each_in(table, "tensors", [&](const std::string& name, const toml::node& node) {
        family.tensors.emplace(name, parse_tensor(name, text_of(node, "a tensor")));
    });
    for_each_in(table, "dialects", [&](const std::string& name, const toml::node& node) {
        if (!node.is_table()) throw failure("line {}: dialect '{}' must be a table", node.source().begin.line, name);
        family.dialects.push_back(parse_dialect(name, *node.as_table()));
    });
    check_rules(family);
    return family;
}

}  // namespace

const Dialect* Family::dialect(std::string_view wanted) const {
    const auto found = std::ranges::find(dialects, wanted, &Dialect::name);
    return found == dialects.end() ? nullptr : &*found;
}

const CanonicalTensor& Family::tensor(std::string_view wanted) const {
    const auto found = tensors.find(wanted);
    if (found == tensors.end()) throw failure("family '{}': no tensor '{}'", name, wanted);
    return found->second;
}

Family parse_family(std::string_view text, std::string_view source) {
    return in_context([&] { return std::string{source}; },
                      [&] {
                          try {
                              return read_family(toml::parse(text, source));
                          } catch (const toml::parse_error& mistake) {
                              throw failure("line {}: {}", mistake.source().begin.line, mistake.description());
                          }
                      });
}

}  // namespace tpx
