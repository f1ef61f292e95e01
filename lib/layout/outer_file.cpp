// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/outer_file.hpp"

#include "lib/layout/rule_nodes.hpp"

#include <algorithm>

namespace tpx {
namespace {

/// Checks that `glob` can be written as a name once its `*` is replaced.
void check_outer_name(const std::string& glob, const toml::node& node) {
    in_context([&] { return fmt::format("line {}", node.source().begin.line); },
               [&] {
                   const NameTemplate name{glob};
                   if (name.has('l') || name.has('e') || name.has_prefix())
                       throw failure("the name of a part cannot contain {{l}}, {{e}} or a bracketed prefix");
                   if (std::ranges::count(glob, '*') > 1) throw failure("the name of a part has one '*' at most");
                   const std::size_t question = glob.find('?');
                   if (question != glob.npos && (question < 2 || glob.substr(question - 2, 3) != ".*?"))
                       throw failure("'?' must follow '.*' in the name of a part");
               });
}

std::vector<char> letters_in_order(const std::vector<Axis>& axes) {
    std::vector<char> letters;
    for (const Axis& axis : axes)
        for (const Token token : axis) letters.push_back(token.letter);
    std::ranges::sort(letters);
    return letters;
}

/// "GLOB", a list of them, or "GLOB -> b a", with the factors of `declared`, or, if these are empty, with a for the
/// first axis of the canonical tensor, and so on.
OuterNames parse_outer_names(const toml::node& node, const std::vector<Axis>& declared) {
    OuterNames names{.globs = node.is_array() ? texts_of(node, "a part") : std::vector{text_of(node, "a part")},
                     .axes = {}};
    const auto line = node.source().begin.line;
    if (names.globs.empty()) throw failure("line {}: a part needs a name", line);
    constexpr std::string_view arrow = " -> ";
    for (std::string& glob : names.globs) {
        if (const std::size_t at = glob.find(arrow); at != glob.npos) {
            names.axes = in_context([&] { return fmt::format("line {}", line); },
                                    [&] { return parse_axes(std::string_view{glob}.substr(at + arrow.size())); });
            glob.resize(at);
        }
        check_outer_name(glob, node);
    }
    const std::vector<char> letters = letters_in_order(names.axes);
    std::vector<char> wanted = letters_in_order(declared);
    for (std::size_t k = 0; declared.empty() && k < letters.size(); ++k) wanted.push_back(static_cast<char>('a' + k));
    if (!letters.empty() && letters != wanted)
        throw failure("line {}: {}", line,
                      declared.empty() ? "axes of a part are a, b, and so on, each once"
                                       : "a part has the factors of its 'axes', each once");
    return names;
}

/// "(j n d) h ; tp=n".
void parse_part_axes(const toml::node& node, OuterPart& part) {
    in_context([&] { return fmt::format("line {}", node.source().begin.line); },
               [&] {
                   const CanonicalTensor tensor = parse_tensor("", text_of(node, "'axes'"));
                   part.axes = tensor.axes;
                   part.tp = tensor.tp;
                   const std::vector<char> letters = letters_in_order(part.axes);
                   if (std::ranges::adjacent_find(letters) != letters.end()) throw failure("a factor occurs twice");
               });
}

/// A table of the names of a part by dialect, and perhaps its axes.
OuterPart parse_part(const toml::node& node) {
    constexpr std::string_view axes_key = "axes";
    const auto line = node.source().begin.line;
    if (!node.is_table()) throw failure("line {}: a part must be a table", line);
    OuterPart part;
    if (const toml::node* axes = node.as_table()->get(axes_key)) parse_part_axes(*axes, part);
    for (const auto& [dialect, text] : *node.as_table())
        if (dialect.str() != axes_key) part.names[std::string{dialect.str()}] = parse_outer_names(text, part.axes);
    if (part.names.empty()) throw failure("line {}: a part needs a name", line);
    const auto has_star = [](const std::string& glob) { return glob.find('*') != glob.npos; };
    const bool starred = has_star(part.names.begin()->second.globs[0]);
    for (const auto& [dialect, names] : part.names)
        if (std::ranges::any_of(names.globs, [&](const std::string& glob) { return has_star(glob) != starred; }))
            throw failure("line {}: all names of a part must have one '*', or none", line);
    return part;
}

OuterModel parse_outer(const toml::node& node) {
    const toml::table* table = node.as_table();
    const toml::node* types = table == nullptr ? nullptr : table->get("types");
    if (types == nullptr) throw failure("line {}: outer: 'types' is missing", node.source().begin.line);
    OuterModel outer{.types = texts_of(*types, "types"), .nest = {}, .dims = {}, .parts = {}};
    for_each_in(*table, "nest", [&](const std::string& dialect, const toml::node& nesting) {
        outer.nest[dialect] = parse_nesting(nesting);
    });
    for_each_in(*table, "dims", [&](const std::string& factor, const toml::node& formula) {
        outer.dims[letter_of(factor, formula)] = text_of(formula, "a formula");
    });
    const toml::array* parts = table->get_as<toml::array>("parts");
    if (parts == nullptr) throw failure("line {}: outer: 'parts' is missing", node.source().begin.line);
    for (const toml::node& part : *parts) outer.parts.push_back(parse_part(part));
    return outer;
}

}  // namespace

void read_outer(const toml::table& table, Family& family) {
    const toml::node* node = table.get("outer");
    if (node == nullptr) return;
    if (!node->is_array())
        throw failure("line {}: 'outer' must be a list of tables; write [[outer]]", node->source().begin.line);
    for (const toml::node& outer : *node->as_array()) family.outer.push_back(parse_outer(outer));
}

}  // namespace tpx
