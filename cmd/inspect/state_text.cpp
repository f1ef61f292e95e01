// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/print_state.hpp"
#include "lib/core/units.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace tpx::cli {
namespace {

using Node = formats::StateNode;
using Kind = Node::Kind;

constexpr std::size_t longest_line = 100;
constexpr std::size_t most_items = 32;
constexpr std::size_t most_entries = 1000;

/// `text` in quotes on one line, with control characters escaped, and abbreviated if it is long.
std::string quoted(const std::string& text) {
    constexpr std::size_t longest = 160;
    const auto escaped = [](const std::string& part) {
        return nlohmann::json(part).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    };
    if (text.size() <= longest) return escaped(text);
    std::size_t end = longest;
    while (end > 0 && (text[end] & 0xc0) == 0x80) --end;  // not inside a character
    return fmt::format("{}... ({} bytes)", escaped(text.substr(0, end)), text.size());
}

/// "tensor u8 [5056]", and the digest if there is one.
std::string array_text(const Node& node) {
    return fmt::format("{} {} {}{}{}", node.type, node.dtype, to_string(node.shape), node.digest.empty() ? "" : " ",
                       node.digest);
}

std::string leaf_text(const Node& node) {
    switch (node.kind) {
        case Kind::none:
            return "None";
        case Kind::string:
            return quoted(node.text);
        case Kind::bytes:
            return fmt::format("{} bytes {}", node.count, node.digest);
        case Kind::array:
            return array_text(node);
        case Kind::tensors:
            return fmt::format("{} tensor{}{}", node.count, node.count == 1 ? "" : "s",
                               node.bytes == 0 ? "" : ", " + format_bytes(static_cast<double>(node.bytes)));
        case Kind::same:
            return "as " + node.text;
        case Kind::deep:
            return node.text + ", nested too deeply to be shown";
        default:
            return node.text;
    }
}

/// A sequence of leaves on one line, "[1, 2, 3]" or "(0.9, 0.999)"; only the beginning of a long one. Empty if `node`
/// is not such a sequence, or if its first item is too long.
std::string run_text(const Node& node) {
    if (node.kind != Kind::sequence) return {};
    if (!std::ranges::all_of(node.children, [](const auto& child) { return child.node.is_leaf(); })) return {};
    const bool tuple = node.type == "tuple";
    const std::string begin = tuple ? "(" : node.type.empty() ? "[" : node.type + "(";
    const char* end = node.type.empty() ? "]" : ")";
    std::string text;
    for (std::size_t i = 0; i < node.children.size(); ++i) {
        const std::string item = leaf_text(node.children[i].node);
        if (text.size() + item.size() > longest_line)
            return i == 0 ? "" : fmt::format("{}{}, ... ({} items){}", begin, text, node.children.size(), end);
        text += (i > 0 ? ", " : "") + item;
    }
    return begin + text + (tuple && node.children.size() == 1 ? "," : "") + end;
}

/// The text after the key of a container whose children follow on separate lines.
std::string head_text(const Node& node) {
    const std::size_t count = node.children.size();
    if (count == 0) return node.kind == Kind::mapping ? (node.type.empty() ? "{}" : node.type + "()") : "[]";
    if (!node.type.empty()) return node.kind == Kind::mapping ? node.type : fmt::format("{} of {}", node.type, count);
    return node.kind == Kind::mapping ? "" : fmt::format("list of {}", count);
}

void append(std::string& text, const std::string& key, const Node& node, int indent) {
    const std::string run = node.is_leaf() ? leaf_text(node) : run_text(node);
    const std::string value = run.empty() ? head_text(node) : run;
    text +=
        fmt::format("{:{}}{}:{}{}\n", "", indent, printable(key, ""), value.empty() ? "" : " ", printable(value, ""));
    if (!run.empty()) return;
    const std::size_t most = node.kind == Kind::mapping ? most_entries : most_items;
    for (std::size_t i = 0; i < node.children.size(); ++i) {
        if (i == most) {
            text += fmt::format("{:{}}... ({} more)\n", "", indent + 2, node.children.size() - most);
            return;
        }
        const auto& child = node.children[i];
        append(text, node.kind == Kind::mapping ? child.key : std::to_string(i), child.node, indent + 2);
    }
}

}  // namespace

std::string state_text(const std::string& key, const Node& node, int indent) {
    std::string text;
    append(text, key, node, indent);
    return text;
}

}  // namespace tpx::cli
