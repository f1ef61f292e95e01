// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/value.hpp"
#include "lib/core/error.hpp"
#include "lib/core/populate_pages.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <type_traits>

namespace tpx::torch {
namespace {

constexpr std::size_t value_alignment = alignof(std::uint64_t);
constexpr std::size_t smallest_chunk = std::size_t{1} << 10;
constexpr std::size_t largest_chunk = std::size_t{1} << 20;

}  // namespace

void* Document::allocate_bytes(std::size_t bytes) {
    bytes = (bytes + value_alignment - 1) / value_alignment * value_alignment;
    if (bytes > left_) {
        // Chunks grow with the document, so that a small document uses little memory.
        const std::size_t size = std::max(bytes, std::clamp(memory_, smallest_chunk, largest_chunk));
        chunks_.push_back(std::make_unique_for_overwrite<std::byte[]>(size));
        if (size == largest_chunk) populate_pages(chunks_.back().get(), size);
        memory_ += size;
        if (size - bytes < left_) return chunks_.back().get();  // the previous chunk has more space left: keep using it
        next_ = chunks_.back().get();
        left_ = size;
    }
    std::byte* const result = next_;
    next_ += bytes;
    left_ -= bytes;
    return result;
}

template <class T>
T* Document::allocate(std::size_t count) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= value_alignment);
    auto* const array = static_cast<T*>(allocate_bytes(count * sizeof(T)));
    std::uninitialized_value_construct_n(array, count);
    return array;
}

namespace {

std::uint64_t address(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

}  // namespace

Value Document::text(Kind kind, std::string_view content) {
    auto* const words = static_cast<std::uint64_t*>(allocate_bytes(sizeof(std::uint64_t) + content.size()));
    words[0] = content.size();
    if (!content.empty()) std::memcpy(words + 1, content.data(), content.size());
    return Value{Value::tag(kind) | address(words)};
}

Value Document::integer(std::int64_t value) {
    constexpr std::int64_t limit = std::int64_t{1} << (Value::payload_bits - 1);
    if (-limit <= value && value < limit)
        return Value{Value::tag(Kind::integer) |
                     (std::uint64_t(value) & ((std::uint64_t{1} << Value::payload_bits) - 1))};
    auto* const wide = allocate<std::int64_t>(1);
    *wide = value;
    return Value{Value::tag(Value::wide_integer) | address(wide)};
}

Value Document::big_integer(std::string_view two_complement) { return text(Kind::big_integer, two_complement); }

Value Document::real(double value) {
    auto* const place = allocate<double>(1);
    *place = value;
    return Value{Value::tag(Kind::real) | address(place)};
}

Value Document::string(std::string_view content) { return text(Kind::string, content); }

Value Document::bytes(std::string_view data) { return text(Kind::bytes, data); }

Value Document::tuple(std::span<const Value> items) {
    auto* const words = static_cast<std::uint64_t*>(allocate_bytes(sizeof(std::uint64_t) + items.size_bytes()));
    words[0] = items.size();
    std::uninitialized_copy(items.begin(), items.end(), reinterpret_cast<Value*>(words + 1));
    return Value{Value::tag(Kind::tuple) | address(words)};
}

Value Document::size(std::span<const std::int64_t> dimensions) {
    std::vector<Value> items;
    for (const std::int64_t dimension : dimensions) items.push_back(integer(dimension));
    return size(tuple(items));
}

Value Document::size(Value tuple) {
    if (!tuple.is(Kind::tuple)) throw failure("expected a tuple, found {}", tuple.describe());
    return Value{Value::tag(Kind::size) | address(tuple.pointer<void>())};
}

Value Document::run(Kind kind, std::span<const Value> items) {
    auto* const place = allocate<Run<Value>>(1);
    extend(*place, items);
    return Value{Value::tag(kind) | address(place)};
}

Value Document::list(std::span<const Value> items) { return run(Kind::list, items); }

Value Document::set(std::span<const Value> items) { return run(Kind::set, items); }

Value Document::frozenset(std::span<const Value> items) { return run(Kind::frozenset, items); }

Value Document::dict(std::span<const Entry> entries) {
    auto* const place = allocate<Run<Entry>>(1);
    extend(*place, entries);
    return Value{Value::tag(Kind::dict) | address(place)};
}

Value Document::global(std::string_view module, std::string_view name) {
    auto* const place = allocate<Global>(1);
    place->module = text(Kind::string, module).as_string();
    place->name = text(Kind::string, name).as_string();
    return Value{Value::tag(Kind::global) | address(place)};
}

Value Document::object(Value callable, Value args, Construction construction) {
    if (!args.is(Kind::tuple)) throw failure("expected a tuple of arguments, found {}", args.describe());
    auto* const place = allocate<Object>(1);
    place->construction = construction;
    place->callable = callable;
    place->args = args;
    return Value{Value::tag(Kind::object) | address(place)};
}

Value Document::persistent(Value id) {
    auto* const place = allocate<Value>(1);
    *place = id;
    return Value{Value::tag(Kind::persistent) | address(place)};
}

template <class T>
void Document::extend(Run<T>& run, std::span<const T> more) {
    constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
    if (more.size() > most - run.size) throw failure("more than {} elements in one list or dict", most);
    const std::size_t needed = run.size + more.size();
    if (needed > run.capacity) {
        const std::size_t capacity =
            run.size == 0 ? needed : std::min(most, std::max(needed, std::size_t{run.size} * 2));
        T* const larger = allocate<T>(capacity);
        std::copy_n(run.data, run.size, larger);
        run.data = larger;
        run.capacity = static_cast<std::uint32_t>(capacity);
    }
    std::copy(more.begin(), more.end(), run.data + run.size);
    run.size = static_cast<std::uint32_t>(needed);
}

Object::Contents& Document::contents(Value object) {
    Object& place = *object.pointer<Object>();
    if (place.contents_ == nullptr) place.contents_ = allocate<Object::Contents>(1);
    return *place.contents_;
}

void Document::append(Value sequence, std::span<const Value> items) {
    if (sequence.is(Kind::object)) return extend(contents(sequence).items, items);
    if (!sequence.is(Kind::list) && !sequence.is(Kind::set)) throw failure("cannot append to {}", sequence.describe());
    extend(*sequence.pointer<Run<Value>>(), items);
}

void Document::insert(Value mapping, std::span<const Entry> entries) {
    if (mapping.is(Kind::object)) return extend(contents(mapping).entries, entries);
    if (!mapping.is(Kind::dict)) throw failure("cannot set items of {}", mapping.describe());
    extend(*mapping.pointer<Run<Entry>>(), entries);
}

void Document::set_state(Value object, Value state) {
    if (!object.is(Kind::object)) throw failure("cannot set the state of {}", object.describe());
    Object& place = *object.pointer<Object>();
    if (!place.state.is_none()) throw failure("state of {} set twice", object.describe());
    place.state = state;
}

void Document::fill(Value object, Value state, std::span<const Value> items, std::span<const Entry> entries) {
    if (!state.is_none()) set_state(object, state);
    if (!items.empty()) append(object, items);
    if (!entries.empty()) insert(object, entries);
}

Value Document::with_key(Value mapping, std::string_view key, Value value) {
    std::vector<Entry> entries{mapping.entries().begin(), mapping.entries().end()};
    const auto place = std::find_if(entries.rbegin(), entries.rend(), [&](const Entry& entry) {
        return entry.key.is(Kind::string) && entry.key.as_string() == key;
    });
    if (place != entries.rend())
        place->value = value;
    else
        entries.push_back({string(key), value});
    if (mapping.is(Kind::dict)) return dict(entries);
    const Object& source = mapping.as_object();
    const Value copy = object(source.callable, source.args, source.construction);
    fill(copy, source.state, source.items(), entries);
    return copy;
}

Value Document::with_attribute(Value object, std::string_view name, Value value) {
    const Object& source = object.as_object();
    if (!source.state.is(Kind::dict)) throw failure("{} has no dict of attributes", object.describe());
    const Value copy = this->object(source.callable, source.args, source.construction);
    fill(copy, with_key(source.state, name, value), source.items(), source.entries());
    return copy;
}

}  // namespace tpx::torch
