// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/value.hpp"

#include <bit>
#include <unordered_set>
#include <utility>

namespace tpx::torch {
namespace {

void append_entries(std::span<const Entry> entries, std::vector<Value>& children) {
    for (const Entry& entry : entries) {
        children.push_back(entry.key);
        children.push_back(entry.value);
    }
}

/// Whether `a` and `b`, which have the same kind, are equal apart from their children.
bool equal_alone(Value a, Value b) {
    switch (a.kind()) {
        case Kind::boolean:
            return a.as_bool() == b.as_bool();
        case Kind::integer:
            return a.as_int() == b.as_int();
        case Kind::real:
            return std::bit_cast<std::uint64_t>(a.as_real()) == std::bit_cast<std::uint64_t>(b.as_real());
        case Kind::string:
            return a.as_string() == b.as_string();
        case Kind::bytes:
        case Kind::big_integer:
            return a.as_bytes() == b.as_bytes();
        case Kind::global:
            return a.as_global() == b.as_global();
        case Kind::object: {
            const Object &one = a.as_object(), &other = b.as_object();
            return one.construction == other.construction && one.items().size() == other.items().size() &&
                   one.entries().size() == other.entries().size();
        }
        default:
            return true;
    }
}

struct PairHash {
    std::size_t operator()(const std::pair<Value, Value>& pair) const {
        return ValueHash{}(pair.first) * 31 + ValueHash{}(pair.second);
    }
};

}  // namespace

void append_children(Value value, std::vector<Value>& children) {
    switch (value.kind()) {
        case Kind::tuple:
        case Kind::size:
        case Kind::list:
        case Kind::set:
        case Kind::frozenset:
            children.insert(children.end(), value.items().begin(), value.items().end());
            return;
        case Kind::dict:
            return append_entries(value.entries(), children);
        case Kind::persistent:
            return children.push_back(value.as_persistent());
        case Kind::object: {
            const Object& object = value.as_object();
            children.push_back(object.callable);
            children.push_back(object.args);
            children.insert(children.end(), object.items().begin(), object.items().end());
            append_entries(object.entries(), children);
            return children.push_back(object.state);
        }
        default:
            return;
    }
}

bool equal(Value a, Value b) {
    std::unordered_set<std::pair<Value, Value>, PairHash> met;
    std::vector<Value> left{a}, right{b};
    while (!left.empty() && left.size() == right.size()) {
        const Value one = left.back(), other = right.back();
        left.pop_back();
        right.pop_back();
        if (one.kind() != other.kind() || !equal_alone(one, other)) return false;
        if (!one.is_node()) continue;
        if (!met.insert({one, other}).second) continue;
        append_children(one, left);
        append_children(other, right);
    }
    return left.size() == right.size();
}

}  // namespace tpx::torch
