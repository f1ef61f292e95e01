// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/family_file.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/condition.hpp"

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

std::vector<std::string> words_of(std::string_view text) {
    std::vector<std::string> words;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(' '), text.size());
        if (end > 0) words.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return words;
}

void set_word(CanonicalTensor& tensor, std::string_view word) {
    if (word.starts_with("tp=") && word.size() == 4)
        tensor.tp = word[3];
    else if (word.starts_with("tp=") && word.substr(4) == "@local")
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
        throw failure("word '{}' is not known (tp=, ep=e, tie=, first, last, mtp, buffer, opt)", word);
}

CanonicalTensor parse_tensor(const std::string& name, std::string_view text) {
    const std::size_t semicolon = std::min(text.find(';'), text.size());
    CanonicalTensor tensor{.name = name, .axes = parse_axes(text.substr(0, semicolon))};
    for (const std::string& word : words_of(text.substr(std::min(semicolon + 1, text.size())))) set_word(tensor, word);
    for (char letter : {tensor.tp, tensor.local_tp, tensor.ep}) {
        if (letter != 0 && !tensor.has(letter)) throw failure("it has no factor '{}'", letter);
    }
    return tensor;
}

WrittenRule parse_rule(const toml::node& node) {
    const std::vector<std::string> texts = texts_of(node, "a rule");
    if (texts.size() < 2 || texts.size() > 3)
        throw failure("line {}: a rule is [name, expression] or [name, expression, tags]", node.source().begin.line);
    return in_context([&] { return fmt::format("line {}", node.source().begin.line); },
                      [&] {
                          NameTemplate{texts[0]};  // to be refused with its line
                          return WrittenRule{texts[0], parse_expression(texts[1]),
                                             texts.size() == 3 ? words_of(texts[2]) : std::vector<std::string>{}};
                      });
}

/// "PATTERN", or ["PATTERN", "TAG"].
RolePattern parse_pattern(Role role, const toml::node& node) {
    const std::vector<std::string> texts =
        node.is_array() ? texts_of(node, "a role pattern") : std::vector{text_of(node, "a role pattern")};
    if (texts.empty() || texts.size() > 2 || std::ranges::count(texts[0], '*') != 1)
        throw failure("line {}: role pattern '{}' must have one '*', and a tag at most", node.source().begin.line,
                      texts.empty() ? "" : texts[0]);
    return {role, texts[0], texts.size() > 1 ? texts[1] : ""};
}

/// ["PREFIX", "BEFORE"].
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

WrittenDialect parse_dialect(const toml::table& table) {
    WrittenDialect dialect;
    dialect.bare = table["bare"].value_or(false);
    dialect.replace = table["replace"].value_or(false);
    if (const toml::node* layer = table.get("layer"))
        dialect.layer = layer->is_array() ? texts_of(*layer, "layer") : std::vector{text_of(*layer, "layer")};
    if (const toml::node* extra = table.get("extra")) dialect.extra = texts_of(*extra, "extra");
    if (const toml::node* whole = table.get("whole")) dialect.whole = texts_of(*whole, "whole");
    if (const toml::array* nest = table["nest"].as_array()) {
        for (const toml::node& item : *nest) dialect.nest.push_back(parse_nesting(item));
    }
    if (const toml::array* rules = table["rules"].as_array()) {
        for (const toml::node& rule : *rules) dialect.rules.push_back(parse_rule(rule));
    }
    for_each_in(table, "roles", [&](const std::string& word, const toml::node& node) {
        const auto role = role_by_name(word);
        if (!role || !is_of_optimizer(*role))
            throw failure("line {}: '{}' is not a role of optimizer state; use, for example, master or exp_avg",
                          node.source().begin.line, word);
        if (!node.is_array()) throw failure("line {}: a role must be a list", node.source().begin.line);
        for (const toml::node& item : *node.as_array()) dialect.roles[*role].push_back(parse_pattern(*role, item));
    });
    return dialect;
}

ConfigEntry parse_entry(const std::string& key, const toml::node& node) {
    const toml::array* list = node.as_array();
    if (!list) return {key, text_of(node, "a config value"), false};
    std::vector<std::string> items = texts_of(node, "a config value");
    if (items.empty()) throw failure("line {}: config '{}': a list needs a value", node.source().begin.line, key);
    return {key, items[0], true, {items.begin() + 1, items.end()}};
}

/// [condition, reason, value].
Limit parse_limit(const toml::node& node) {
    const std::vector<std::string> texts = texts_of(node, "a limit");
    const auto line = node.source().begin.line;
    if (texts.size() != 3) throw failure("line {}: a limit is [condition, reason, value]", line);
    in_context([&] { return fmt::format("line {}", line); }, [&] { check_condition(texts[0]); });
    return {texts[0], texts[1], texts[2]};
}

void read_sizes(const toml::table& table, Family& family) {
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
    for_each_in(table, "divide",
                [&](const std::string&, const toml::node& node) { family.tp_divides = texts_of(node, "divide"); });
}

void read_configuration(const toml::table& table, Family& family) {
    for_each_in(table, "detect", [&](const std::string& source, const toml::node& node) {
        family.detect[source] = texts_of(node, "detect");
    });
    for_each_in(table, "tied", [&](const std::string& source, const toml::node& node) {
        family.tied[source] = text_of(node, "tied");
    });
    for_each_in(table, "config", [&](const std::string& dialect, const toml::node& node) {
        if (!node.is_table()) throw failure("line {}: config.{} must be a table", node.source().begin.line, dialect);
        for (const auto& [key, value] : *node.as_table())
            family.config[dialect].push_back(parse_entry(std::string{key.str()}, value));
    });
}

void read_limits(const toml::table& table, Family& family) {
    for_each_in(table, "limits", [&](const std::string& dialect, const toml::node& node) {
        if (!node.is_table()) throw failure("line {}: limits.{} must be a table", node.source().begin.line, dialect);
        for (const auto& [setting, limit] : *node.as_table())
            family.limits[dialect][std::string{setting.str()}] = parse_limit(limit);
    });
}

void read_needed(const toml::table& table, Family& family) {
    for_each_in(table, "needed", [&](const std::string& dialect, const toml::node& node) {
        if (!node.is_table()) throw failure("line {}: needed.{} must be a table", node.source().begin.line, dialect);
        for (const auto& [key, assumed] : *node.as_table())
            family.needed[dialect][std::string{key.str()}] = text_of(assumed, "what is assumed");
    });
}

/// A condition for all sources, or a table of them by source.
void read_present(const toml::table& table, Family& family) {
    const auto condition = [](const toml::node& node) {
        const std::string text = text_of(node, "a condition");
        in_context([&] { return fmt::format("line {}", node.source().begin.line); }, [&] { check_condition(text); });
        return text;
    };
    for_each_in(table, "present", [&](const std::string& tensor, const toml::node& node) {
        if (!node.is_table()) {
            family.present[tensor]["any"] = condition(node);
            return;
        }
        for (const auto& [source, text] : *node.as_table())
            family.present[tensor][std::string{source.str()}] = condition(text);
    });
}

/// Checks that `glob` can be written as a name once its `*` is replaced.
void check_outer_name(const std::string& glob, const toml::node& node) {
    in_context([&] { return fmt::format("line {}", node.source().begin.line); },
               [&] {
                   const NameTemplate name{glob};
                   if (name.has('l') || name.has('e') || name.has_prefix())
                       throw failure("the name of a part cannot contain {{l}}, {{e}} or a bracketed prefix");
                   if (std::ranges::count(glob, '*') > 1) throw failure("the name of a part has one '*' at most");
               });
}

/// "GLOB", a list of them, or "GLOB -> b a", where a is the first axis of the canonical tensor.
OuterNames parse_outer_names(const toml::node& node) {
    OuterNames names{.globs = node.is_array() ? texts_of(node, "a part") : std::vector{text_of(node, "a part")},
                     .axes = {}};
    if (names.globs.empty()) throw failure("line {}: a part needs a name", node.source().begin.line);
    constexpr std::string_view arrow = " -> ";
    for (std::string& glob : names.globs) {
        if (const std::size_t at = glob.find(arrow); at != glob.npos) {
            for (const std::string& axis : words_of(std::string_view{glob}.substr(at + arrow.size())))
                names.axes.push_back(letter_of(axis, node) - 'a');
            glob.resize(at);
        }
        std::vector<int> sorted = names.axes;
        std::ranges::sort(sorted);
        for (std::size_t k = 0; k < sorted.size(); ++k)
            if (sorted[k] != static_cast<int>(k))
                throw failure("line {}: axes of a part are a, b, and so on, each once", node.source().begin.line);
        check_outer_name(glob, node);
    }
    return names;
}

/// A table of the names of a part by dialect.
std::map<std::string, OuterNames> parse_part(const toml::node& node) {
    const auto line = node.source().begin.line;
    if (!node.is_table()) throw failure("line {}: a part must be a table", line);
    std::map<std::string, OuterNames> part;
    for (const auto& [dialect, text] : *node.as_table()) part[std::string{dialect.str()}] = parse_outer_names(text);
    if (part.empty()) throw failure("line {}: a part needs a name", line);
    const auto has_star = [](const std::string& glob) { return glob.find('*') != glob.npos; };
    const bool starred = has_star(part.begin()->second.globs[0]);
    for (const auto& [dialect, names] : part)
        if (std::ranges::any_of(names.globs, [&](const std::string& glob) { return has_star(glob) != starred; }))
            throw failure("line {}: all names of a part must have one '*', or none", line);
    return part;
}

OuterModel parse_outer(const toml::node& node) {
    const toml::table* table = node.as_table();
    const toml::node* types = table == nullptr ? nullptr : table->get("types");
    if (types == nullptr) throw failure("line {}: outer: 'types' is missing", node.source().begin.line);
    OuterModel outer{.types = texts_of(*types, "types"), .nest = {}, .parts = {}};
    for_each_in(*table, "nest", [&](const std::string& dialect, const toml::node& nesting) {
        outer.nest[dialect] = parse_nesting(nesting);
    });
    const toml::array* parts = table->get_as<toml::array>("parts");
    if (parts == nullptr) throw failure("line {}: outer: 'parts' is missing", node.source().begin.line);
    for (const toml::node& part : *parts) outer.parts.push_back(parse_part(part));
    return outer;
}

void read_outer(const toml::table& table, Family& family) {
    const toml::node* node = table.get("outer");
    if (node == nullptr) return;
    if (!node->is_array())
        throw failure("line {}: 'outer' must be a list of tables; write [[outer]]", node->source().begin.line);
    for (const toml::node& outer : *node->as_array()) family.outer.push_back(parse_outer(outer));
}

WrittenFamily read_family(const toml::table& table) {
    WrittenFamily written;
    Family& family = written.own;
    family.name = table["family"].value_or(std::string{});
    if (family.name.empty()) throw failure("line 1: 'family = \"NAME\"' is missing");
    written.fragment = table["fragment"].value_or(false);
    family.told = table["told"].value_or(false);
    family.remote_code = table["remote_code"].value_or(false);
    if (const toml::node* node = table.get("extends")) written.extends = texts_of(*node, "extends");
    if (const toml::node* node = table.get("remove")) written.remove = texts_of(*node, "remove");
    if (const toml::node* node = table.get("without")) written.without = texts_of(*node, "without");
    read_configuration(table, family);
    read_sizes(table, family);
    read_limits(table, family);
    read_needed(table, family);
    read_present(table, family);
    for_each_in(table, "tensors", [&](const std::string& name, const toml::node& node) {
        family.tensors.emplace(
            name, in_context([&] { return fmt::format("line {}: tensor '{}'", node.source().begin.line, name); },
                             [&] { return parse_tensor(name, text_of(node, "a tensor")); }));
    });
    for_each_in(table, "dialects", [&](const std::string& name, const toml::node& node) {
        if (!node.is_table()) throw failure("line {}: dialect '{}' must be a table", node.source().begin.line, name);
        written.dialects.emplace(name, parse_dialect(*node.as_table()));
    });
    read_outer(table, family);
    return written;
}

}  // namespace

WrittenFamily parse_family_file(const FamilySource& source) {
    return in_context([&] { return std::string{source.name}; },
                      [&] {
                          try {
                              WrittenFamily written = read_family(toml::parse(source.toml, source.name));
                              written.source = source.name;
                              return written;
                          } catch (const toml::parse_error& mistake) {
                              throw failure("line {}: {}", mistake.source().begin.line, mistake.description());
                          }
                      });
}

}  // namespace tpx
