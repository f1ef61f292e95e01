// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tpx::torch {

/// The machine that executes pickles: its input, stack and memo, and a function for each action of an opcode. Every
/// function throws Error if the input ends early or the stack lacks what the function needs.
class PickleMachine {
public:
    explicit PickleMachine(std::string_view data);

    /// Must be called before each opcode.
    void begin_step() { deepest_ = 0; }

    // Input

    std::size_t position() const { return at_; }
    std::string_view take(std::uint64_t size);
    std::uint64_t number(std::size_t bytes);  ///< little-endian, unsigned, of at most 8 bytes
    std::string_view line();                  ///< up to the next line feed, which is skipped

    // Stack

    /// Pushes a value made of what was popped since begin_step().
    void push(Value value) { push_at(value, deepest_ + 1); }
    void duplicate();
    Value top() const;
    Value pop();
    void pop_value_or_mark();
    void set_mark() { marks_.push_back(stack_.size()); }
    std::span<const Value> pop_mark();  ///< what was pushed since the last mark; valid until the next call

    // Memo

    void put(std::uint64_t slot);
    void put_next() { put(memo_.size() + sparse_memo_.size()); }
    void get(std::uint64_t slot);

    /// Bytes of values, stack and memo.
    std::size_t memory() const {
        constexpr std::size_t map_node = 64;
        const std::size_t slots = stack_.capacity() + memo_.capacity();
        return document_.memory() + (sizeof(Value) + sizeof(Depth)) * slots + sizeof(Value) * marks_.capacity() +
               map_node * sparse_memo_.size();
    }

    // Values

    Document& document() { return document_; }
    void push_text(std::string_view text);
    void push_old_text(std::string_view text);  ///< a str of Python 2, which may contain bytes
    void push_integer(std::string_view two_complement);
    void push_decimal(std::string_view digits);
    void push_decimal_real(std::string_view digits);
    void push_real(std::uint64_t big_endian);
    void push_bytearray(std::string_view data);

    void push_empty_tuple() { push(empty_tuple_); }
    void push_tuple(std::size_t size);
    void push_dict();
    void append_one();
    void append_marked();
    void set_one();
    void set_marked();

    static void check_protocol(std::uint64_t protocol);
    void check_frame(std::uint64_t size) const;
    void push_global(std::string_view module, std::string_view name);
    void stack_global();
    void reduce();
    void new_object();
    void new_object_with_keywords();
    void instance_of_line();
    void instance_of_marked();
    void build();

private:
    using Depth = std::uint16_t;
    struct Memo {
        Value value;
        Depth depth = 0;
    };

    void push_at(Value value, std::size_t depth);
    void nest_in_top();
    void drop_from(std::size_t begin);
    std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
    std::span<const Entry> pairs(std::span<const Value> flat);
    Value call(Value callable, Value args);
    Value call_builtin(std::string_view name, Value callable, Value args);
    void charge(std::size_t bytes);

    std::string_view data_;
    std::size_t at_ = 0;
    Document document_;
    Value empty_tuple_;
    std::vector<Value> stack_;
    std::vector<std::size_t> marks_;
    std::vector<Depth> depths_;  ///< of the values on the stack: 1 if a value contains no other
    std::size_t deepest_ = 0;    ///< largest depth of the values popped in this step
    std::vector<Value> memo_;
    std::vector<Depth> memo_depths_;
    std::unordered_map<std::uint64_t, Memo> sparse_memo_;  ///< slots beyond the next one, which no known pickler uses
    std::vector<Value> marked_;
    std::vector<Entry> pairs_;
    std::size_t copied_ = 0;
};

}  // namespace tpx::torch
