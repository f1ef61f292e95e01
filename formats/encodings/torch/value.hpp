// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpx::torch {

/// The kind of a pickled value. Builtins have their Python 3 names, whatever the pickle's protocol.
enum class Kind : std::uint8_t {
    none,
    boolean,
    integer,
    big_integer,  ///< beyond 64 bits
    real,
    string,  ///< UTF-8, unless the pickle came from Python 2
    bytes,
    tuple,
    size,  ///< torch.Size
    list,
    dict,
    set,
    frozenset,
    global,      ///< a class, a function or a dtype: module and name, never looked up
    object,      ///< what calling a global would make
    persistent,  ///< a storage: the tuple that torch.save calls its persistent id
};

struct Entry;
struct Global;
struct Object;

/// One node of a pickled tree: eight bytes that point into a Document, which must outlive it. Nothing is ever executed,
/// and no operation recurses. References to one node that the pickle shares compare equal with ==.
struct Value {
    constexpr Value() = default;
    static constexpr Value boolean(bool value) { return Value{tag(Kind::boolean) | (value ? 1u : 0u)}; }

    Kind kind() const;
    bool is_none() const { return bits_ == 0; }
    bool is(Kind other) const { return kind() == other; }
    /// False for values without a node of their own, which therefore cannot be shared: None, bools, small ints.
    bool is_node() const { return raw_kind() > Kind::integer; }

    /// These throw Error "expected an int, found str 'x'" when the value is of another kind.
    bool as_bool() const;
    std::int64_t as_int() const;
    double as_real() const;  ///< accepts an int, too
    std::string_view as_string() const;
    std::string_view as_bytes() const;  ///< accepts a big integer, too: little-endian two's complement
    Global as_global() const;
    const Object& as_object() const;
    Value as_persistent() const;

    /// The elements of a tuple, size, list or set, or those appended to an object (deque); throws Error for others.
    std::span<const Value> items() const;

    /// The entries of a dict in insertion order, or those set on an object (OrderedDict, defaultdict). If a key appears
    /// twice, the last entry counts. Throws Error for others.
    std::span<const Entry> entries() const;

    /// The value of a string key among entries(): linear in their number. `at` throws Error when there is none.
    std::optional<Value> find(std::string_view key) const;
    Value at(std::string_view key) const;

    /// An attribute of an object: a string key of its state, even if the state is the pair (dict, slots).
    /// `attribute_at` throws Error when there is none.
    std::optional<Value> attribute(std::string_view name) const;
    Value attribute_at(std::string_view name) const;

    /// The name without module of the callable that made an object, or of a global; "" for other kinds.
    std::string_view class_name() const;

    /// "dict of 3", "str 'x'", "object argparse.Namespace": for messages.
    std::string describe() const;

    friend constexpr bool operator==(Value, Value) = default;

private:
    friend class Document;
    friend struct ValueHash;
    // The highest byte is the kind; the rest is a small int or a pointer, which never needs that byte.
    static constexpr int payload_bits = 56;
    static constexpr Kind wide_integer{0x80};

    constexpr explicit Value(std::uint64_t bits) : bits_{bits} {}
    static constexpr std::uint64_t tag(Kind kind) { return std::uint64_t(kind) << payload_bits; }
    Kind raw_kind() const { return Kind(bits_ >> payload_bits); }
    template <class T>
    T* pointer() const {
        return reinterpret_cast<T*>(bits_ & ((std::uint64_t{1} << payload_bits) - 1));
    }

    std::uint64_t bits_ = 0;
};

/// Hashes a value by identity.
struct ValueHash {
    std::size_t operator()(Value value) const {
        return std::hash<std::uint64_t>{}(value.bits_ * 0x9e3779b97f4a7c15 >> 3);
    }
};

struct Entry {
    Value key;
    Value value;
};

struct Global {
    std::string_view module;
    std::string_view name;

    friend bool operator==(const Global&, const Global&) = default;
};

/// A growing array in a Document.
template <class T>
struct Run {
    T* data = nullptr;
    std::uint32_t size = 0;
    std::uint32_t capacity = 0;

    std::span<const T> span() const { return {data, size}; }
};

/// How a pickle creates an object: callable(*args), or callable.__new__(callable, *args).
enum class Construction : std::uint8_t { call, allocate };

/// An object that is never built: what would be called, and what would be stored in the object.
struct Object {
    Construction construction = Construction::call;
    Value callable;  ///< usually a global
    Value args;      ///< a tuple
    Value state;     ///< none when the pickle sets no state

    std::span<const Value> items() const;    ///< appended to it
    std::span<const Entry> entries() const;  ///< set on it

private:
    friend class Document;
    struct Contents;
    Contents* contents_ = nullptr;  // null for most objects, which have neither
};

struct Object::Contents {
    Run<Value> items;
    Run<Entry> entries;
};

inline std::span<const Value> Object::items() const {
    return contents_ == nullptr ? std::span<const Value>{} : contents_->items.span();
}
inline std::span<const Entry> Object::entries() const {
    return contents_ == nullptr ? std::span<const Entry>{} : contents_->entries.span();
}

/// Owns a tree of values. Everything is stored in an arena: a node costs no allocation of its own, and destruction
/// takes the same few steps for any depth.
class Document {
public:
    Document() = default;
    Document(Document&&) = default;
    Document& operator=(Document&&) = default;

    Value root() const { return root_; }
    void set_root(Value root) { root_ = root; }

    Value integer(std::int64_t value);
    Value big_integer(std::string_view two_complement);
    Value real(double value);
    Value string(std::string_view text);
    Value bytes(std::string_view data);
    Value tuple(std::span<const Value> items);
    Value size(std::span<const std::int64_t> dimensions);
    Value size(Value tuple);  ///< shares the tuple's memory
    Value list(std::span<const Value> items = {});
    Value dict(std::span<const Entry> entries = {});
    Value set(std::span<const Value> items = {});
    Value frozenset(std::span<const Value> items);
    Value global(std::string_view module, std::string_view name);
    Value object(Value callable, Value args, Construction construction = Construction::call);
    Value persistent(Value id);

    /// Changes in place: appends to a list, set or object. Throws Error for other kinds.
    void append(Value sequence, std::span<const Value> items);
    /// Changes in place: adds entries to a dict or object, keys unchecked. Throws Error for other kinds.
    void insert(Value mapping, std::span<const Entry> entries);
    /// Changes in place: sets an object's state. Throws Error for other kinds and when it has one.
    void set_state(Value object, Value state);

    /// A shallow copy of the dict or object `mapping` in which string `key` has `value`; an existing key keeps its
    /// position. `mapping` may belong to another document, which must outlive this one.
    Value with_key(Value mapping, std::string_view key, Value value);
    /// The same for an attribute of an object whose state is a dict.
    Value with_attribute(Value object, std::string_view name, Value value);

    /// Allocated memory in bytes.
    std::size_t memory() const { return memory_; }

private:
    template <class T>
    T* allocate(std::size_t count);
    void* allocate_bytes(std::size_t bytes);
    Value text(Kind kind, std::string_view content);
    Value run(Kind kind, std::span<const Value> items);
    template <class T>
    void extend(Run<T>& run, std::span<const T> more);
    Object::Contents& contents(Value object);
    void fill(Value object, Value state, std::span<const Value> items, std::span<const Entry> entries);

    std::vector<std::unique_ptr<std::byte[]>> chunks_;
    std::byte* next_ = nullptr;
    std::size_t left_ = 0;
    std::size_t memory_ = 0;
    Value root_;
};

/// Appends the children of `value` in the order in which they are written: elements, keys and values, an object's
/// callable, arguments, elements, entries and state, a storage's id.
void append_children(Value value, std::vector<Value>& children);

/// Whether two trees are equal in kinds, scalars, order and objects; they may share nodes differently. Does not
/// recurse; shared and cyclic parts are compared once.
bool equal(Value a, Value b);

}  // namespace tpx::torch
