// SPDX-License-Identifier: Apache-2.0
#include "formats/state/state_node.hpp"

#include "formats/encodings/torch/numpy.hpp"
#include "formats/state/value_text.hpp"
#include "lib/core/digest.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>

namespace tpx::formats {
namespace {

using torch::Entry;
using torch::Global;
using torch::Kind;
using torch::Value;
using Node = StateNode;

constexpr std::uint64_t most_read = std::uint64_t{256} << 20;  // bytes of tensors, for digests

std::string digest_of(std::string_view bytes) {
    Digest digest;
    const auto length = static_cast<Index>(bytes.size());
    add(digest, Shape{length}, 1, Box{{0, length}}, std::as_bytes(std::span{bytes}).data());
    return to_string(digest);
}

void set_bytes(Node& node, std::string bytes) {
    node.count = bytes.size();
    node.digest = digest_of(bytes);
    if (bytes.size() <= Node::few_bytes) node.text = std::move(bytes);
}

class Maker {
public:
    Maker(const torch::Archive* archive, TensorTreatment tensors) : archive_{archive}, tensors_{tensors} {}

    Node make(Value value, const std::string& path, int depth) {
        Node node = scalar(value);
        if (node.kind != Node::Kind::deep) return node;
        if (is_large(value)) {
            const auto [known, is_new] = met_.try_emplace(value, path);
            if (!is_new) return {.kind = Node::Kind::same, .text = known->second};
        }
        if (depth >= Node::deepest) return {.kind = Node::Kind::deep, .text = value.describe()};
        return container(value, path, depth);
    }

private:
    /// The node of a value without children; a node of kind `deep` for other values.
    static Node scalar(Value value) {
        switch (value.kind()) {
            case Kind::none:
                return {};
            case Kind::boolean:
                return {.kind = Node::Kind::boolean, .text = value.as_bool() ? "True" : "False"};
            case Kind::integer:
                return {.kind = Node::Kind::integer, .text = std::to_string(value.as_int())};
            case Kind::big_integer:
                return {.kind = Node::Kind::integer, .text = big_integer_text(value.as_bytes())};
            case Kind::real:
                return {.kind = Node::Kind::real, .text = real_text(value.as_real())};
            case Kind::string:
                return {.kind = Node::Kind::string, .text = std::string{value.as_string()}};
            case Kind::bytes:
                return make_bytes_node(std::string{value.as_bytes()});
            case Kind::global:
                return {.kind = Node::Kind::symbol, .text = global_text(value)};
            case Kind::persistent:
                return {.kind = Node::Kind::symbol, .text = "a storage"};
            default:
                return {.kind = Node::Kind::deep};
        }
    }

    /// Whether a value is described only where it appears first, so that a small pickle cannot make a large tree. Short
    /// runs of scalars are repeated.
    static bool is_large(Value value) {
        constexpr std::size_t small = 16;
        const auto is_short = [](Value item) {
            return !item.is_node() || item.is(Kind::integer) || item.is(Kind::real) ||
                   (item.is(Kind::string) && item.as_string().size() < 64);
        };
        if (value.is(Kind::object) || value.is(Kind::dict)) return true;
        if (value.items().size() > small) return true;
        for (const Value item : value.items())
            if (!is_short(item)) return true;
        return false;
    }

    Node container(Value value, const std::string& path, int depth) {
        Node node{.kind = Node::Kind::sequence};
        switch (value.kind()) {
            case Kind::dict:
                node.kind = Node::Kind::mapping;
                add(node, value.entries(), path, depth);
                break;
            case Kind::object:
                return object(value, path, depth);
            default:
                if (!value.is(Kind::list)) node.type = word(value.kind());
                add(node, value.items(), path, depth);
        }
        return gathered(std::move(node));
    }

    static std::string word(Kind kind) {
        if (kind == Kind::tuple) return "tuple";
        if (kind == Kind::size) return "torch.Size";
        return kind == Kind::set ? "set" : "frozenset";
    }

    void add(Node& node, std::span<const Value> items, const std::string& path, int depth) {
        for (std::size_t i = 0; i < items.size(); ++i)
            node.children.push_back({{}, make(items[i], fmt::format("{}[{}]", path, i), depth + 1)});
    }

    void add(Node& node, std::span<const Entry> entries, const std::string& path, int depth) {
        std::set<std::string> keys;
        for (const Entry& entry : entries) {
            std::string key = key_text(entry.key);
            node.plain_keys &= entry.key.is(Kind::string) || entry.key.is(Kind::integer);
            node.plain_keys &= keys.insert(key).second;
            StateNode child =
                make(entry.value, fmt::format("{}{}{:.80}", path, path.empty() ? "" : ".", key), depth + 1);
            node.children.push_back({std::move(key), std::move(child)});
        }
    }

    Node object(Value value, const std::string& path, int depth) {
        if (const auto tensor = tensor_of(value)) return tensor_node(*tensor);
        if (auto array = torch::numpy_value(value)) {
            if (array->scalar) return scalar_of(*array);
            Node node{.kind = Node::Kind::array, .type = "numpy.ndarray", .dtype = array->dtype, .shape = array->shape};
            set_bytes(node, std::move(array->bytes));
            return node;
        }
        if (auto member = enum_member(value)) return {.kind = Node::Kind::symbol, .text = std::move(*member)};
        return gathered(instance(value, path, depth));
    }

    /// The member in getattr(CLASS, 'NAME'), which is how some versions of Python pickle members of enums.
    static std::optional<std::string> enum_member(Value value) {
        const auto args = value.as_object().args.items();
        const bool is_getattr =
            value.class_name() == "getattr" && args.size() == 2 && args[0].is(Kind::global) && args[1].is(Kind::string);
        if (!is_getattr) return std::nullopt;
        return fmt::format("{}.{}", global_text(args[0]), args[1].as_string());
    }

    /// `value` as a tensor. Unset if it cannot be read: it is then described as an object.
    std::optional<torch::StoredTensor> tensor_of(Value value) const {
        if (archive_ == nullptr) return std::nullopt;
        try {
            return archive_->tensor(value);
        } catch (const Error&) {
            return std::nullopt;
        }
    }

    static Node scalar_of(const torch::NumpyValue& value) {
        const auto number = torch::numpy_number(value);
        if (!number) return make_bytes_node(value.bytes);
        Node node = std::holds_alternative<double>(*number)
                        ? Node{.kind = Node::Kind::real, .text = real_text(std::get<double>(*number))}
                        : Node{.kind = Node::Kind::integer, .text = std::to_string(std::get<std::int64_t>(*number))};
        if (value.dtype == "bool") node = {.kind = Node::Kind::boolean, .text = node.text == "0" ? "False" : "True"};
        return node;
    }

    Node tensor_node(const torch::StoredTensor& tensor) {
        Node node{.kind = Node::Kind::array,
                  .type = "tensor",
                  .dtype = std::string{name(tensor.dtype)},
                  .shape = tensor.shape};
        node.bytes =
            static_cast<std::uint64_t>(volume(tensor.shape)) * static_cast<std::uint64_t>(itemsize(tensor.dtype));
        const torch::Storage* storage = archive_->find_storage(tensor.storage);
        const std::uint64_t cost = std::max(node.bytes, storage->bytes);
        if (tensors_ == TensorTreatment::catalogue || cost > most_read - read_) return node;
        read_ += cost;
        set_bytes(node, archive_->elements(tensor));
        return node;
    }

    /// An instance of a class: its arguments, its items and entries, and its attributes.
    Node instance(Value value, const std::string& path, int depth) {
        const torch::Object& object = value.as_object();
        Value callable = object.callable;
        auto args = object.args.items();
        const std::string_view function = callable.is(Kind::global) ? callable.as_global().name : "";
        if (function == "_reconstructor" && args.size() == 3 && args[0].is(Kind::global)) {
            callable = args[0];
            args = {};
        }
        Node node{.kind = Node::Kind::mapping, .type = callable.is(Kind::global) ? global_text(callable) : "object"};
        Value state = object.state;
        const bool is_dict = node.type == "collections.OrderedDict" || node.type == "collections.defaultdict";
        // A model's state dict has the versions of its modules as an attribute, which is not state.
        if (is_dict && state.is(Kind::dict) && state.entries().size() == 1 && state.find("_metadata")) state = Value{};
        if (is_dict) args = {};
        if (node.type == "collections.OrderedDict") node.type.clear();
        const bool only_args = state.is_none() && object.entries().empty() && object.items().empty();
        if (only_args && !args.empty()) {
            node.kind = Node::Kind::sequence;
            add(node, args, path, depth);
            return node;
        }
        if (args.empty() && state.is_none() && object.entries().empty() && !object.items().empty()) {
            node.kind = Node::Kind::sequence;
            add(node, object.items(), path, depth);
            return node;
        }
        if (!args.empty()) part(node, "(args)", object.args, path, depth);
        if (!object.items().empty()) {
            Node items{.kind = Node::Kind::sequence};
            add(items, object.items(), path, depth);
            node.children.push_back({"(items)", gathered(std::move(items))});
        }
        add(node, object.entries(), path, depth);
        if (state.is(Kind::dict))
            add(node, state.entries(), path, depth);
        else if (!state.is_none())
            part(node, "(state)", state, path, depth);
        return node;
    }

    void part(Node& node, const char* key, Value value, const std::string& path, int depth) {
        node.children.push_back({key, make(value, path + "." + key, depth + 1)});
    }

    /// Replaces the catalogue's tensors among the children of `node` by their number if there are many of them, or no
    /// other children.
    Node gathered(Node node) const {
        constexpr std::uint64_t most_listed = 3;
        if (tensors_ != TensorTreatment::catalogue || node.children.empty()) return node;
        Node sum{.kind = Node::Kind::tensors};
        std::uint64_t alone = 0;
        for (const StateChild& child : node.children) {
            const bool is_tensor = child.node.kind == Node::Kind::array && child.node.type == "tensor";
            if (!is_tensor && child.node.kind != Node::Kind::tensors) continue;
            alone += is_tensor;
            sum.count += is_tensor ? 1 : child.node.count;
            sum.bytes += child.node.bytes;
        }
        if (alone == node.children.size() || is_all_tensors(node)) return sum;
        if (alone <= most_listed) return node;
        std::erase_if(node.children, [](const StateChild& child) {
            return child.node.kind == Node::Kind::array && child.node.type == "tensor";
        });
        Node rest{.kind = Node::Kind::tensors, .count = alone};
        node.children.push_back({"(tensors)", std::move(rest)});
        return node;
    }

    static bool is_all_tensors(const Node& node) {
        for (const StateChild& child : node.children) {
            const bool is_tensor = child.node.kind == Node::Kind::array && child.node.type == "tensor";
            if (!is_tensor && child.node.kind != Node::Kind::tensors) return false;
        }
        return true;
    }

    const torch::Archive* archive_;
    TensorTreatment tensors_;
    std::uint64_t read_ = 0;  // bytes of tensors
    std::unordered_map<Value, std::string, torch::ValueHash> met_;
};

}  // namespace

StateNode make_bytes_node(std::string bytes) {
    StateNode node{.kind = StateNode::Kind::bytes};
    set_bytes(node, std::move(bytes));
    return node;
}

StateNode make_state_node(Value value, const torch::Archive* archive, TensorTreatment tensors,
                          const std::string& path) {
    return Maker{archive, tensors}.make(value, path, 0);
}

}  // namespace tpx::formats
