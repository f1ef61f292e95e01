// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/print_state.hpp"

#include "cmd/jobs/keeper_client.hpp"
#include "cmd/jobs/open_checkpoint.hpp"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;
using Node = formats::StateNode;
using Kind = Node::Kind;

std::string base64(std::string_view bytes) {
    constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        std::uint32_t word = 0;
        for (std::size_t k = 0; k < 3; ++k)
            word = word << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
        for (std::size_t k = 0; k < 4; ++k)
            text.push_back(i + k > bytes.size() ? '=' : letters[word >> (18 - 6 * k) & 63]);
    }
    return text;
}

/// Length and digest, and the bytes themselves if they are few.
Json bytes_json(const Node& node) {
    Json json{{"length", node.count}, {"digest", node.digest}};
    if (node.count <= Node::few_bytes) json["base64"] = base64(node.text);
    return json;
}

Json array_json(const Node& node) {
    Json json{{"dtype", node.dtype}, {"shape", to_json(node.shape)}};
    if (!node.digest.empty()) json.update(bytes_json(node));
    return {{node.type == "tensor" ? "$tensor" : "$array", json}};
}

Json integer_json(const std::string& text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc{} && end == text.data() + text.size()) return value;
    return {{"$int", text}};
}

Json real_json(const std::string& text) {
    const double value = std::strtod(text.c_str(), nullptr);
    return std::isfinite(value) ? Json(value) : Json{{"$float", text}};
}

Json leaf_json(const Node& node) {
    switch (node.kind) {
        case Kind::none:
            return nullptr;
        case Kind::boolean:
            return node.text == "True";
        case Kind::integer:
            return integer_json(node.text);
        case Kind::real:
            return real_json(node.text);
        case Kind::string:
            return node.text;
        case Kind::bytes:
            return {{"$bytes", bytes_json(node)}};
        case Kind::array:
            return array_json(node);
        case Kind::symbol:
            return {{"$global", node.text}};
        case Kind::tensors:
            return {{"$tensors", {{"count", node.count}, {"bytes", node.bytes}}}};
        case Kind::same:
            return {{"$same", node.text}};
        default:
            return {{"$deep", node.text}};
    }
}

Json node_json(const Node& node);

Json mapping_json(const Node& node) {
    Json json = Json::object();
    if (!node.type.empty()) json["$class"] = node.type;
    if (node.plain_keys) {
        for (const auto& [key, child] : node.children) json[key] = node_json(child);
        return json;
    }
    json["$pairs"] = Json::array();
    for (const auto& [key, child] : node.children) json["$pairs"].push_back(Json::array({key, node_json(child)}));
    return json;
}

Json node_json(const Node& node) {
    if (node.is_leaf()) return leaf_json(node);
    if (node.kind == Kind::mapping) return mapping_json(node);
    Json list = Json::array();
    for (const auto& child : node.children) list.push_back(node_json(child.node));
    const bool plain = node.type.empty() || node.type == "tuple" || node.type == "torch.Size";
    return plain ? list : Json{{"$class", node.type}, {"$items", list}};
}

void print_json(const formats::Checkpoint& checkpoint, const std::vector<formats::StateItem>& items, Output& out) {
    Json list = Json::array();
    for (const formats::StateItem& item : items) {
        Json json{{"file", item.file}, {"name", item.name}};
        if (!item.differs_from.empty()) json["unlike"] = item.differs_from;
        json["value"] = node_json(item.node);
        list.push_back(std::move(json));
    }
    out.object("tpx.state/1", {{"checkpoint", replace_held_paths(checkpoint.catalogue.directory.string())},
                               {"format", formats::name(checkpoint.format)},
                               {"state", list}});
}

}  // namespace

void print_state(const formats::Checkpoint& checkpoint, const std::vector<formats::StateItem>& items, Output& out) {
    if (out.json()) return print_json(checkpoint, items, out);
    if (items.empty()) return out.result("{} checkpoint without non-tensor state\n", name(checkpoint.format));
    const formats::StateItem* last = nullptr;
    for (const formats::StateItem& item : items) {
        if (last == nullptr || last->file != item.file) {
            const std::string differs_from =
                item.differs_from.empty() ? "" : " (where it differs from " + item.differs_from + ")";
            if (!item.file.empty())
                out.result("{}{}{}\n", last == nullptr ? "" : "\n", printable(item.file, ""),
                           printable(differs_from, ""));
        }
        last = &item;
        out.result("{}", state_text(item.name.empty() ? "(all)" : item.name, item.node, item.file.empty() ? 0 : 2));
    }
}

}  // namespace tpx::cli
