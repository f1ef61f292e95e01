// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/pickle_writer.hpp"
#include "lib/core/error.hpp"

#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tpx::torch {

/// Writes a tree with an explicit stack, so that depth costs only memory.
class TreeWriter {
public:
    TreeWriter(PickleWriter& out, StorageIds ids) : out_{out}, ids_{ids} {}

    void run(Value root) {
        find_shared(root);
        later(root);
        while (!steps_.empty()) {
            const Step step = steps_.back();
            steps_.pop_back();
            if (step.opcode == 0) {
                write(step.value);
            } else {
                out_.opcode(step.opcode);
                remember(step.value);
            }
        }
    }

private:
    /// Either a value to write (no opcode), or an opcode that completes `value`.
    struct Step {
        char opcode = 0;
        Value value;
    };

    /// A node to which the tree refers more than once.
    struct Shared {
        enum { unmet, open, done } state = unmet;
        std::uint32_t slot = 0;
    };

    /// False for values that are written by content even if they are shared.
    static bool has_identity(Value value) {
        return value.is_node() && !value.is(Kind::string) && !value.is(Kind::global) &&
               !(value.is(Kind::tuple) && value.items().empty());
    }

    void find_shared(Value root) {
        std::unordered_set<Value, ValueHash> met;
        std::vector<Value> waiting{root};
        while (!waiting.empty()) {
            const Value value = waiting.back();
            waiting.pop_back();
            if (!has_identity(value)) continue;
            if (met.insert(value).second)
                append_children(value, waiting);
            else
                shared_.try_emplace(value);
        }
    }

    void later(Value value) { steps_.push_back({0, value}); }
    void later(char opcode, Value completed = {}) { steps_.push_back({opcode, completed}); }

    void later(std::span<const Value> items) {
        for (auto item = items.rbegin(); item != items.rend(); ++item) later(*item);
    }

    void later(std::span<const Entry> entries) {
        for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
            later(entry->value);
            later(entry->key);
        }
    }

    void remember(Value value) {
        const auto place = shared_.find(value);
        if (place == shared_.end()) return;
        place->second = {Shared::done, out_.next_slot_};
        out_.put(out_.next_slot_++);
    }

    void write(Value value) {
        const auto place = shared_.find(value);
        if (place != shared_.end()) {
            if (place->second.state == Shared::done) return out_.get(place->second.slot);
            if (place->second.state == Shared::open) throw failure("{} contains itself", value.describe());
            place->second.state = Shared::open;
        }
        write_new(value);
    }

    void write_new(Value value) {
        switch (value.kind()) {
            case Kind::none:
                return out_.none();
            case Kind::boolean:
                return out_.boolean(value.as_bool());
            case Kind::string:
                return out_.string(value.as_string());
            case Kind::global:
                return write_global(value.as_global());
            case Kind::integer:
                out_.integer(value.as_int());
                return remember(value);
            case Kind::big_integer:
                out_.big_integer(value.as_bytes());
                return remember(value);
            case Kind::real:
                out_.real(value.as_real());
                return remember(value);
            case Kind::bytes:
                out_.bytes(value.as_bytes());
                return remember(value);
            default:
                return open_container(value);
        }
    }

    /// Readers of streams need a dtype for every storage, so untyped storages are written as storages of bytes.
    void write_global(Global global) {
        const bool untyped = global == Global{"torch.storage", "UntypedStorage"};
        if (untyped && ids_ == StorageIds::of_streams) global = {"torch", "ByteStorage"};
        out_.global(global.module, global.name);
    }

    /// Writes what precedes the elements, and schedules the elements and the opcodes that complete the container.
    void open_container(Value value) {
        switch (value.kind()) {
            case Kind::tuple:
                return open_tuple(value.items(), value);
            case Kind::size:
                out_.global("torch", "Size");
                later('R', value);
                later('\x85');
                return open_tuple(value.items(), {});
            case Kind::list:
                out_.empty_list();
                remember(value);
                return open_run(value.items(), 'e');
            case Kind::dict:
                out_.empty_dict();
                remember(value);
                return open_run(value.entries(), 'u');
            case Kind::set:
            case Kind::frozenset:
                out_.global("builtins", value.is(Kind::set) ? "set" : "frozenset");
                later('R', value);
                later('\x85');
                out_.empty_list();
                return open_run(value.items(), 'e');
            case Kind::persistent:
                later('Q', value);
                return open_storage_id(value.as_persistent());
            default:
                return open_object(value);
        }
    }

    void open_tuple(std::span<const Value> items, Value completed) {
        constexpr char opcodes[] = {')', '\x85', '\x86', '\x87'};
        later(items.size() > 3 ? 't' : opcodes[items.size()], completed);
        if (items.size() > 3) out_.mark();
        later(items);
    }

    void open_storage_id(Value id) {
        if (ids_ == StorageIds::of_archives) return later(id);
        later('t');
        later(Value{});
        later(id.items());
        out_.mark();
    }

    template <class T>
    void open_run(std::span<const T> items, char opcode) {
        if (items.empty()) return;
        out_.mark();
        later(opcode);
        later(items);
    }

    void open_object(Value value) {
        const Object& object = value.as_object();
        if (!object.state.is_none()) {
            later('b');
            later(object.state);
        }
        if (!object.entries().empty()) {
            later('u');
            later(object.entries());
            later('(');
        }
        if (!object.items().empty()) {
            later('e');
            later(object.items());
            later('(');
        }
        later(object.construction == Construction::call ? 'R' : '\x81', value);
        later(object.args);
        later(object.callable);
    }

    PickleWriter& out_;
    StorageIds ids_;
    std::vector<Step> steps_;
    std::unordered_map<Value, Shared, ValueHash> shared_;
};

void PickleWriter::value(Value value, StorageIds ids) { TreeWriter{*this, ids}.run(value); }

}  // namespace tpx::torch
