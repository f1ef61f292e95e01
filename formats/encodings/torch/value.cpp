// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/value.hpp"

#include "lib/core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace tpx::torch {
namespace {

std::string_view word(Kind kind) {
    constexpr std::array<std::string_view, 16> words{
        "None",         "a bool", "an int", "a big int", "a float",     "a str",    "bytes",     "a tuple",
        "a torch.Size", "a list", "a dict", "a set",     "a frozenset", "a global", "an object", "a storage"};
    return words[std::size_t(kind)];
}

Error unexpected(std::string_view wanted, Value found) {
    return failure("expected {}, found {}", wanted, found.describe());
}

std::string quoted(std::string_view text) {
    constexpr std::size_t most = 60;
    return text.size() <= most ? fmt::format("'{}'", text) : fmt::format("'{}'...", text.substr(0, most));
}

}  // namespace

Kind Value::kind() const { return raw_kind() == wide_integer ? Kind::integer : raw_kind(); }

bool Value::as_bool() const {
    if (!is(Kind::boolean)) throw unexpected("a bool", *this);
    return (bits_ & 1) != 0;
}

std::int64_t Value::as_int() const {
    if (raw_kind() == Kind::integer) return std::int64_t(bits_ << (64 - payload_bits)) >> (64 - payload_bits);
    if (raw_kind() != wide_integer) throw unexpected("an int", *this);
    return *pointer<std::int64_t>();
}

double Value::as_real() const {
    if (is(Kind::integer)) return static_cast<double>(as_int());
    if (!is(Kind::real)) throw unexpected("a float", *this);
    return *pointer<double>();
}

std::string_view Value::as_string() const {
    if (!is(Kind::string)) throw unexpected("a str", *this);
    const auto* words = pointer<std::uint64_t>();
    return {reinterpret_cast<const char*>(words + 1), words[0]};
}

std::string_view Value::as_bytes() const {
    if (!is(Kind::bytes) && !is(Kind::big_integer)) throw unexpected("bytes", *this);
    const auto* words = pointer<std::uint64_t>();
    return {reinterpret_cast<const char*>(words + 1), words[0]};
}

Global Value::as_global() const {
    if (!is(Kind::global)) throw unexpected("a global", *this);
    return *pointer<Global>();
}

const Object& Value::as_object() const {
    if (!is(Kind::object)) throw unexpected("an object", *this);
    return *pointer<Object>();
}

Value Value::as_persistent() const {
    if (!is(Kind::persistent)) throw unexpected("a storage", *this);
    return *pointer<Value>();
}

std::span<const Value> Value::items() const {
    switch (kind()) {
        case Kind::tuple:
        case Kind::size: {
            const auto* words = pointer<std::uint64_t>();
            return {reinterpret_cast<const Value*>(words + 1), words[0]};
        }
        case Kind::list:
        case Kind::set:
        case Kind::frozenset:
            return pointer<Run<Value>>()->span();
        case Kind::object:
            return as_object().items();
        default:
            throw unexpected("a list or tuple", *this);
    }
}

std::span<const Entry> Value::entries() const {
    if (is(Kind::dict)) return pointer<Run<Entry>>()->span();
    if (is(Kind::object)) return as_object().entries();
    throw unexpected("a dict", *this);
}

std::optional<Value> Value::find(std::string_view key) const {
    const std::span<const Entry> all = entries();
    for (auto entry = all.rbegin(); entry != all.rend(); ++entry)
        if (entry->key.is(Kind::string) && entry->key.as_string() == key) return entry->value;
    return std::nullopt;
}

Value Value::at(std::string_view key) const {
    if (const auto found = find(key)) return *found;
    throw failure("no key '{}' in {}", key, describe());
}

std::optional<Value> Value::attribute(std::string_view name) const {
    const Value state = as_object().state;
    if (state.is(Kind::dict)) return state.find(name);
    if (!state.is(Kind::tuple)) return std::nullopt;
    for (const Value part : state.items())
        if (part.is(Kind::dict))
            if (const auto found = part.find(name)) return found;
    return std::nullopt;
}

Value Value::attribute_at(std::string_view name) const {
    if (const auto found = attribute(name)) return *found;
    throw failure("no attribute '{}' in {}", name, describe());
}

std::string_view Value::class_name() const {
    if (is(Kind::global)) return as_global().name;
    if (is(Kind::object) && as_object().callable.is(Kind::global)) return as_object().callable.as_global().name;
    return {};
}

std::string Value::describe() const {
    switch (kind()) {
        case Kind::boolean:
            return as_bool() ? "True" : "False";
        case Kind::integer:
            return fmt::format("int {}", as_int());
        case Kind::real:
            return fmt::format("float {}", as_real());
        case Kind::string:
            return "str " + quoted(as_string());
        case Kind::bytes:
        case Kind::big_integer:
            return fmt::format("{} of {} bytes", is(Kind::bytes) ? "bytes" : "int", as_bytes().size());
        case Kind::tuple:
        case Kind::size:
        case Kind::list:
        case Kind::set:
        case Kind::frozenset:
            return fmt::format("{} of {}", word(kind()), items().size());
        case Kind::dict:
            return fmt::format("a dict of {}", entries().size());
        case Kind::global:
            return fmt::format("{}.{}", as_global().module, as_global().name);
        case Kind::object:
            return as_object().callable.is(Kind::global) ? "object " + as_object().callable.describe() : "an object";
        default:
            return std::string{word(kind())};
    }
}

}  // namespace tpx::torch
