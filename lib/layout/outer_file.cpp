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

/// Whether each factor of `axes` is one of all `tensors`, or, if these declare no axes, they are a, b, and so on.
bool has_known_factors(const std::vector<Axis>& axes, const std::vector<const OuterTensor*>& tensors) {
    std::vector<char> letters = letters_in_order(axes);
    if (tensors.size() == 1) {
        std::vector<char> wanted = letters_in_order(tensors[0]->axes);
        for (std::size_t k = 0; tensors[0]->axes.empty() && k < letters.size(); ++k)
            wanted.push_back(static_cast<char>('a' + k));
        return letters == wanted;
    }
    std::erase(letters, '+');
    return std::ranges::all_of(tensors, [&](const OuterTensor* tensor) {
        const std::vector<char> own = letters_in_order(tensor->axes);
        return std::ranges::includes(own, letters);
    });
}

/// "GLOB", "GLOB -> b a", or, for a part of several tensors, "GLOB gate" or "GLOB gate up -> (+) h".
OuterName parse_outer_name(std::string_view text, const OuterPart& part) {
    const std::size_t end = std::min(text.find(' '), text.size());
    OuterName name{.glob = std::string{text.substr(0, end)}, .tensors = {}, .axes = {}};
    const std::string_view rest = text.substr(end);
    const bool single = part.tensors[0].name.empty();
    if (single) {
        constexpr std::string_view arrow = " -> ";
        name.tensors.emplace_back();
        if (rest.starts_with(arrow))
            name.axes = parse_axes(rest.substr(arrow.size()));
        else if (!rest.empty())
            throw failure("'{}': only '-> AXES' can follow the name of a part", text);
    } else {
        if (rest.empty()) throw failure("'{}': the tensors of the part must follow the name", text);
        Expression expression = parse_expression(rest);
        if (expression.addend != 0 || !expression.repeats.empty() || !expression.shape.empty())
            throw failure("'{}': the name of a part cannot have an addend, '*' or 'as'", text);
        name.tensors = std::move(expression.parts);
        name.axes = std::move(expression.axes);
    }
    std::vector<const OuterTensor*> tensors;
    for (const std::string& wanted : name.tensors) {
        const auto found = std::ranges::find(part.tensors, wanted, &OuterTensor::name);
        if (found == part.tensors.end()) throw failure("the part has no tensor '{}'", wanted);
        if (std::ranges::count(name.tensors, wanted) > 1) throw failure("'{}': tensor '{}' occurs twice", text, wanted);
        tensors.push_back(&*found);
    }
    if (!name.axes.empty() && !has_known_factors(name.axes, tensors))
        throw failure("{}", single && part.tensors[0].axes.empty() ? "axes of a part are a, b, and so on, each once"
                                                                   : "a part has the factors of its 'axes', each once");
    return name;
}

/// The names of the tensors of a part in a dialect. Throws Error if a tensor has none.
std::vector<OuterName> parse_outer_names(const toml::node& node, const OuterPart& part) {
    const auto texts = node.is_array() ? texts_of(node, "a part") : std::vector{text_of(node, "a part")};
    std::vector<OuterName> names;
    for (const std::string& text : texts) {
        names.push_back(in_context([&] { return fmt::format("line {}", node.source().begin.line); },
                                   [&] { return parse_outer_name(text, part); }));
        check_outer_name(names.back().glob, node);
    }
    for (const OuterTensor& tensor : part.tensors) {
        const bool named = std::ranges::any_of(names, [&](const OuterName& name) {
            return std::ranges::find(name.tensors, tensor.name) != name.tensors.end();
        });
        if (!named && tensor.name.empty()) throw failure("line {}: a part needs a name", node.source().begin.line);
        if (!named) throw failure("line {}: tensor '{}' of a part has no name", node.source().begin.line, tensor.name);
    }
    return names;
}

/// "(j n d) h ; tp=n".
OuterTensor parse_outer_tensor(const std::string& name, const toml::node& node) {
    return in_context([&] { return fmt::format("line {}", node.source().begin.line); },
                      [&] {
                          const CanonicalTensor tensor = parse_tensor("", text_of(node, "'axes'"));
                          const std::vector<char> letters = letters_in_order(tensor.axes);
                          if (std::ranges::adjacent_find(letters) != letters.end())
                              throw failure("a factor occurs twice");
                          return OuterTensor{name, tensor.axes, tensor.tp};
                      });
}

/// The tensors of a part: one, written as "(j n d) h ; tp=n", or a table of several. Without a node, one tensor whose
/// axes are not declared.
std::vector<OuterTensor> parse_outer_tensors(const toml::node* node) {
    if (node == nullptr) return {OuterTensor{}};
    if (!node->is_table()) return {parse_outer_tensor("", *node)};
    std::vector<OuterTensor> tensors;
    for (const auto& [name, axes] : *node->as_table())
        tensors.push_back(parse_outer_tensor(std::string{name.str()}, axes));
    if (tensors.empty()) throw failure("line {}: 'axes' is empty", node->source().begin.line);
    return tensors;
}

/// A table of the names of a part by dialect, and perhaps its axes.
OuterPart parse_part(const toml::node& node) {
    constexpr std::string_view axes_key = "axes";
    const auto line = node.source().begin.line;
    if (!node.is_table()) throw failure("line {}: a part must be a table", line);
    OuterPart part{.tensors = parse_outer_tensors(node.as_table()->get(axes_key)), .names = {}};
    for (const auto& [dialect, text] : *node.as_table())
        if (dialect.str() != axes_key) part.names[std::string{dialect.str()}] = parse_outer_names(text, part);
    if (part.names.empty()) throw failure("line {}: a part needs a name", line);
    const auto has_star = [](const OuterName& name) { return name.glob.find('*') != name.glob.npos; };
    const bool starred = has_star(part.names.begin()->second[0]);
    for (const auto& [dialect, names] : part.names)
        if (std::ranges::any_of(names, [&](const OuterName& name) { return has_star(name) != starred; }))
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
