// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/globals.hpp"
#include "formats/encodings/torch/pickle_machine.hpp"
#include "formats/encodings/torch/text.hpp"
#include "lib/core/error.hpp"

#include <algorithm>

namespace tpx::torch {

void PickleMachine::check_protocol(std::uint64_t protocol) {
    if (protocol > 5) throw failure("pickle protocol {} is newer than 5", protocol);
}

void PickleMachine::check_frame(std::uint64_t size) const {
    if (size > data_.size() - at_) throw failure("a frame of {} bytes, {} are left", size, data_.size() - at_);
}

void PickleMachine::push_global(std::string_view module, std::string_view name) {
    // A line feed inside a name would end it when the name is written as a line.
    const auto is_control = [](char c) { return 0 <= c && c < ' '; };
    for (const std::string_view part : {module, name})
        if (part.empty() || !is_utf8(part) || std::any_of(part.begin(), part.end(), is_control))
            throw failure("the name of a global is empty or not text");
    // For every protocol: tpx writes protocol 2, whose readers translate Python 2 names.
    const Global global = python3_name({module, name});
    check_harmless(global);
    push(document_.global(global.module, global.name));
}

void PickleMachine::stack_global() {
    const std::string_view name = pop().as_string();
    push_global(pop().as_string(), name);
}

/// Limits the bytes that calls copy by the length of the pickle, so that a list cannot be copied a million times.
void PickleMachine::charge(std::size_t bytes) {
    constexpr std::size_t most_copies = 16;
    copied_ += bytes;
    if (copied_ / most_copies > data_.size()) throw failure("calls copy more than {} bytes", copied_);
}

Value PickleMachine::call_builtin(std::string_view name, Value callable, Value args) {
    const auto items = args.items();
    const bool of_list = items.size() == 1 && items[0].is(Kind::list);
    if (of_list && (name == "set" || name == "frozenset")) {
        charge(items[0].items().size_bytes());
        return name == "set" ? document_.set(items[0].items()) : document_.frozenset(items[0].items());
    }
    if (name == "bytes" && items.empty()) return document_.bytes({});
    if (name == "getattr") check_enum_member(args);
    return document_.object(callable, args);
}

/// The result of callable(*args): a plain value for torch.Size, set, frozenset and bytes; otherwise an object.
Value PickleMachine::call(Value callable, Value args) {
    if (!callable.is(Kind::global)) return document_.object(callable, args);
    const Global global = callable.as_global();
    const auto items = args.items();
    if (global == Global{"torch", "Size"} && items.size() == 1 && items[0].is(Kind::tuple))
        return document_.size(items[0]);
    if (global == Global{"_codecs", "encode"} && items.size() == 2 && items[1].as_string() == "latin1") {
        charge(items[0].as_string().size());
        const auto bytes = utf8_to_latin1(items[0].as_string());
        if (!bytes) throw failure("bytes contain a character beyond 255");
        return document_.bytes(*bytes);
    }
    if (global.module == "builtins") return call_builtin(global.name, callable, args);
    return document_.object(callable, args);
}

void PickleMachine::reduce() {
    const Value args = pop();
    if (!args.is(Kind::tuple)) throw failure("expected a tuple of arguments, found {}", args.describe());
    push(call(pop(), args));
}

void PickleMachine::new_object() {
    const Value args = pop();
    push(document_.object(pop(), args, Construction::allocate));
}

/// class.__new__(class, *args, **keywords), spelled as Python spells it in older protocols.
void PickleMachine::new_object_with_keywords() {
    push_tuple(3);
    const Value args = pop();
    push(document_.object(document_.global("copyreg", "__newobj_ex__"), args));
}

void PickleMachine::instance_of_line() {
    const std::string_view module = line();
    push_global(module, line());
    const Value type = pop();
    push(document_.object(type, document_.tuple(pop_mark())));
}

void PickleMachine::instance_of_marked() {
    const std::span<const Value> items = pop_mark();
    if (items.empty()) throw failure("the stack is empty");
    push(document_.object(items[0], document_.tuple(items.subspan(1))));
}

void PickleMachine::build() {
    const Value state = pop();
    document_.set_state(top(), state);
    nest_in_top();
}

}  // namespace tpx::torch
