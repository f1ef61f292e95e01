// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/family_file.hpp"

#include "lib/core/error.hpp"
#include "lib/layout/condition.hpp"
#include "lib/layout/outer_file.hpp"
#include "lib/layout/rule_nodes.hpp"

#include <toml++/toml.h>

#include <algorithm>

namespace tpx {
namespace {

WrittenRule parse_rule(const toml::node& node) {
    const std::vector<std::string> texts = texts_of(node, "a rule");
    if (texts.size() < 2 || texts.size() > 3)
        throw failure("line {}: a rule is [name, expression] or [name, expression, tags]", node.source().begin.line);
    return in_context([&] { return fmt::format("line {}", node.source().begin.line); },
                      [&] {
                          NameTemplate{texts[0]};  // throws Error with the line if it is invalid
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
        if (!role || !is_optimizer_state(*role))
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
FrameworkLimit parse_limit(const toml::node& node) {
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

/// Reads a condition for all sources, or a table of conditions by source.
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

WrittenFamily parse_family_head(const FamilySource& source) {
    const std::size_t table = source.toml.find("\n[");
    return parse_family_file({source.name, source.toml.substr(0, table), source.proven});
}

}  // namespace tpx
