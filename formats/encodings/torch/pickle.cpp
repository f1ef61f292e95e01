// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/pickle.hpp"

#include "formats/encodings/torch/pickle_machine.hpp"
#include "formats/encodings/torch/text.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace tpx::torch {
namespace {

using Machine = PickleMachine;
using Action = void (*)(Machine&);

/// The action of each opcode; null for bytes that are not opcodes. The names in the comments are from Python's
/// pickletools.
using Table = std::array<Action, 256>;

std::uint64_t decimal(std::string_view digits) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc{} || end != digits.data() + digits.size()) throw failure("malformed memo number");
    return value;
}

std::int64_t signed_number(Machine& m, std::size_t bytes) {
    const int unused = 64 - 8 * static_cast<int>(bytes);
    return static_cast<std::int64_t>(m.number(bytes) << unused) >> unused;
}

void global_of_lines(Machine& m) {
    const std::string_view module = m.line();
    m.push_global(module, m.line());
}

constexpr void add_numbers(Table& t) {
    t['K'] = [](Machine& m) { m.push(m.document().integer(static_cast<std::int64_t>(m.number(1)))); };  // BININT1
    t['M'] = [](Machine& m) { m.push(m.document().integer(static_cast<std::int64_t>(m.number(2)))); };  // BININT2
    t['J'] = [](Machine& m) { m.push(m.document().integer(signed_number(m, 4))); };                     // BININT
    t[0x8a] = [](Machine& m) { m.push_integer(m.take(m.number(1))); };                                  // LONG1
    t[0x8b] = [](Machine& m) { m.push_integer(m.take(m.number(4))); };                                  // LONG4
    t['I'] = [](Machine& m) { m.push_decimal(m.line()); };                                              // INT
    t['L'] = [](Machine& m) { m.push_decimal(m.line()); };                                              // LONG
    t['G'] = [](Machine& m) { m.push_real(m.number(8)); };                                              // BINFLOAT
    t['F'] = [](Machine& m) { m.push_decimal_real(m.line()); };                                         // FLOAT
    t['N'] = [](Machine& m) { m.push(Value{}); };                                                       // NONE
    t[0x88] = [](Machine& m) { m.push(Value::boolean(true)); };                                         // NEWTRUE
    t[0x89] = [](Machine& m) { m.push(Value::boolean(false)); };                                        // NEWFALSE
}

constexpr void add_texts(Table& t) {
    t[0x8c] = [](Machine& m) { m.push_text(m.take(m.number(1))); };                 // SHORT_BINUNICODE
    t['X'] = [](Machine& m) { m.push_text(m.take(m.number(4))); };                  // BINUNICODE
    t[0x8d] = [](Machine& m) { m.push_text(m.take(m.number(8))); };                 // BINUNICODE8
    t['V'] = [](Machine& m) { m.push_text(unescape_unicode(m.line())); };           // UNICODE
    t['U'] = [](Machine& m) { m.push_old_text(m.take(m.number(1))); };              // SHORT_BINSTRING
    t['T'] = [](Machine& m) { m.push_old_text(m.take(m.number(4))); };              // BINSTRING
    t['S'] = [](Machine& m) { m.push_old_text(unescape_quoted(m.line())); };        // STRING
    t['C'] = [](Machine& m) { m.push(m.document().bytes(m.take(m.number(1)))); };   // SHORT_BINBYTES
    t['B'] = [](Machine& m) { m.push(m.document().bytes(m.take(m.number(4)))); };   // BINBYTES
    t[0x8e] = [](Machine& m) { m.push(m.document().bytes(m.take(m.number(8)))); };  // BINBYTES8
    t[0x96] = [](Machine& m) { m.push_bytearray(m.take(m.number(8))); };            // BYTEARRAY8
}

constexpr void add_stack(Table& t) {
    t['('] = [](Machine& m) { m.set_mark(); };                    // MARK
    t['0'] = [](Machine& m) { m.pop_value_or_mark(); };           // POP
    t['1'] = [](Machine& m) { m.pop_mark(); };                    // POP_MARK
    t['2'] = [](Machine& m) { m.duplicate(); };                   // DUP
    t['q'] = [](Machine& m) { m.put(m.number(1)); };              // BINPUT
    t['r'] = [](Machine& m) { m.put(m.number(4)); };              // LONG_BINPUT
    t['p'] = [](Machine& m) { m.put(decimal(m.line())); };        // PUT
    t[0x94] = [](Machine& m) { m.put_next(); };                   // MEMOIZE
    t['h'] = [](Machine& m) { m.get(m.number(1)); };              // BINGET
    t['j'] = [](Machine& m) { m.get(m.number(4)); };              // LONG_BINGET
    t['g'] = [](Machine& m) { m.get(decimal(m.line())); };        // GET
    t[0x80] = [](Machine& m) { m.check_protocol(m.number(1)); };  // PROTO
    t[0x95] = [](Machine& m) { m.check_frame(m.number(8)); };     // FRAME
}

constexpr void add_containers(Table& t) {
    t[')'] = [](Machine& m) { m.push_empty_tuple(); };                           // EMPTY_TUPLE
    t[0x85] = [](Machine& m) { m.push_tuple(1); };                               // TUPLE1
    t[0x86] = [](Machine& m) { m.push_tuple(2); };                               // TUPLE2
    t[0x87] = [](Machine& m) { m.push_tuple(3); };                               // TUPLE3
    t['t'] = [](Machine& m) { m.push(m.document().tuple(m.pop_mark())); };       // TUPLE
    t[']'] = [](Machine& m) { m.push(m.document().list()); };                    // EMPTY_LIST
    t['l'] = [](Machine& m) { m.push(m.document().list(m.pop_mark())); };        // LIST
    t['a'] = [](Machine& m) { m.append_one(); };                                 // APPEND
    t['e'] = [](Machine& m) { m.append_marked(); };                              // APPENDS
    t['}'] = [](Machine& m) { m.push(m.document().dict()); };                    // EMPTY_DICT
    t['d'] = [](Machine& m) { m.push_dict(); };                                  // DICT
    t['s'] = [](Machine& m) { m.set_one(); };                                    // SETITEM
    t['u'] = [](Machine& m) { m.set_marked(); };                                 // SETITEMS
    t[0x8f] = [](Machine& m) { m.push(m.document().set()); };                    // EMPTY_SET
    t[0x90] = [](Machine& m) { m.append_marked(); };                             // ADDITEMS
    t[0x91] = [](Machine& m) { m.push(m.document().frozenset(m.pop_mark())); };  // FROZENSET
}

/// The value of a persistent id: a storage or, in streams of whole modules, the class of a module, which the id
/// contains together with its source text.
Value referred(Machine& m, Value id) {
    if (id.is(Kind::tuple)) {
        const auto items = id.items();
        if (items.size() == 4 && items[0].is(Kind::string) && items[0].as_string() == "module") return items[1];
    }
    return m.document().persistent(id);
}

constexpr void add_objects(Table& t) {
    t['c'] = [](Machine& m) { global_of_lines(m); };                                               // GLOBAL
    t[0x93] = [](Machine& m) { m.stack_global(); };                                                // STACK_GLOBAL
    t['R'] = [](Machine& m) { m.reduce(); };                                                       // REDUCE
    t[0x81] = [](Machine& m) { m.new_object(); };                                                  // NEWOBJ
    t[0x92] = [](Machine& m) { m.new_object_with_keywords(); };                                    // NEWOBJ_EX
    t['i'] = [](Machine& m) { m.instance_of_line(); };                                             // INST
    t['o'] = [](Machine& m) { m.instance_of_marked(); };                                           // OBJ
    t['b'] = [](Machine& m) { m.build(); };                                                        // BUILD
    t['Q'] = [](Machine& m) { m.push(referred(m, m.pop())); };                                     // BINPERSID
    t['P'] = [](Machine& m) { m.push_text(m.line()), m.push(m.document().persistent(m.pop())); };  // PERSID
}

constexpr Table opcodes() {
    Table table{};
    add_numbers(table);
    add_texts(table);
    add_stack(table);
    add_containers(table);
    add_objects(table);
    return table;
}

constexpr Table table = opcodes();

}  // namespace

Pickle read_pickle(std::string_view data, std::uint64_t most_memory) {
    constexpr std::size_t checked_every = 4096;  // opcodes
    constexpr std::uint64_t most_growth = 16;    // pickles of real checkpoints grow to 8 times their size
    constexpr std::uint64_t small = std::uint64_t{64} << 20;
    const std::uint64_t most = std::min(most_memory, most_growth * data.size() + small);
    Machine machine{data};
    std::size_t start = 0;
    std::size_t done = 0;
    try {
        for (;;) {
            start = machine.position();
            machine.begin_step();
            const auto opcode = static_cast<unsigned char>(machine.take(1)[0]);
            if (opcode == '.') break;
            if (table[opcode] == nullptr) throw failure("unknown opcode 0x{:02x}", opcode);
            table[opcode](machine);
            if (++done % checked_every == 0 && machine.memory() > most)
                throw failure("the pickle's values take more than {} bytes of memory, the limit for a file of its size",
                              most);
        }
        machine.document().set_root(machine.pop());
    } catch (Error& error) {
        error.prepend(fmt::format("byte {}", start));
        throw;
    }
    return {std::move(machine.document()), machine.position()};
}

}  // namespace tpx::torch
