// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/pickle_machine.hpp"

#include "formats/encodings/torch/globals.hpp"
#include "formats/encodings/torch/text.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

namespace tpx::torch {

static_assert(std::endian::native == std::endian::little, "tpx runs on little-endian machines");

PickleMachine::PickleMachine(std::string_view data) : data_{data}, empty_tuple_{document_.tuple({})} {}

std::string_view PickleMachine::take(std::uint64_t size) {
    if (size > data_.size() - at_) throw failure("{} bytes are expected, {} are left", size, data_.size() - at_);
    const std::string_view result = data_.substr(at_, size);
    at_ += size;
    return result;
}

std::uint64_t PickleMachine::number(std::size_t bytes) {
    const char* const first = take(bytes).data();
    std::uint64_t value = 0;
    // Copies eight bytes at once if there are as many, and clears those that follow the number.
    const bool whole = data_.size() - (at_ - bytes) >= sizeof value;
    std::memcpy(&value, first, whole ? sizeof value : bytes);
    return whole ? value & ~std::uint64_t{0} >> (64 - 8 * bytes) : value;
}

std::string_view PickleMachine::line() {
    const std::size_t end = data_.find('\n', at_);
    if (end == data_.npos) throw failure("a line has no end");
    const std::string_view result = data_.substr(at_, end - at_);
    at_ = end + 1;
    return result;
}

Value PickleMachine::top() const {
    if (stack_.size() <= floor()) throw failure("the stack is empty");
    return stack_.back();
}

void PickleMachine::push_at(Value value, std::size_t depth) {
    // Python's pickle stops at its recursion limit, 1000 by default.
    constexpr std::size_t deepest = 1000;
    // Lists and dicts are filled 1000 items at a time: only a tuple needs more.
    constexpr std::size_t most_values = std::size_t{1} << 22;
    if (depth > deepest) throw failure("values are nested more than {} deep", deepest);
    if (stack_.size() == most_values) throw failure("more than {} values are on the stack", most_values);
    stack_.push_back(value);
    depths_.push_back(static_cast<Depth>(depth));
}

/// Updates the depth of the value on top of the stack, which now contains the values popped in this step.
void PickleMachine::nest_in_top() {
    const std::size_t depth = std::max<std::size_t>(depths_.back(), deepest_ + 1);
    const Value value = stack_.back();
    stack_.pop_back();
    depths_.pop_back();
    push_at(value, depth);
}

void PickleMachine::duplicate() {
    const Value value = top();
    push_at(value, depths_.back());
}

Value PickleMachine::pop() {
    const Value value = top();
    deepest_ = std::max<std::size_t>(deepest_, depths_.back());
    stack_.pop_back();
    depths_.pop_back();
    return value;
}

void PickleMachine::pop_value_or_mark() {
    if (!marks_.empty() && marks_.back() == stack_.size())
        marks_.pop_back();
    else
        pop();
}

/// Removes the values from `begin` on from the stack, and includes their depths in deepest_.
void PickleMachine::drop_from(std::size_t begin) {
    for (std::size_t k = begin; k < depths_.size(); ++k) deepest_ = std::max<std::size_t>(deepest_, depths_[k]);
    stack_.resize(begin);
    depths_.resize(begin);
}

std::span<const Value> PickleMachine::pop_mark() {
    if (marks_.empty()) throw failure("no mark on the stack");
    marked_.assign(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    drop_from(marks_.back());
    marks_.pop_back();
    return marked_;
}

void PickleMachine::put(std::uint64_t slot) {
    const Value value = top();
    const Depth depth = depths_.back();
    if (slot < memo_.size()) {
        memo_[slot] = value;
        memo_depths_[slot] = depth;
    } else if (slot == memo_.size()) {
        memo_.push_back(value);
        memo_depths_.push_back(depth);
        sparse_memo_.erase(slot);
    } else {
        sparse_memo_[slot] = {value, depth};
    }
}

void PickleMachine::get(std::uint64_t slot) {
    if (slot < memo_.size()) return push_at(memo_[slot], memo_depths_[slot]);
    const auto found = sparse_memo_.find(slot);
    if (found == sparse_memo_.end()) throw failure("memo {} is not set", slot);
    push_at(found->second.value, found->second.depth);
}

void PickleMachine::push_text(std::string_view text) {
    if (!is_utf8(text)) throw failure("a str is not UTF-8");
    push(document_.string(text));
}

void PickleMachine::push_old_text(std::string_view text) {
    push(is_utf8(text) ? document_.string(text) : document_.bytes(text));
}

void PickleMachine::push_integer(std::string_view two_complement) {
    std::string_view bytes = two_complement;
    while (bytes.size() > sizeof(std::int64_t)) {  // drop bytes that only repeat the sign
        const bool negative = (bytes[bytes.size() - 2] & 0x80) != 0;
        if (bytes.back() != (negative ? '\xff' : '\0')) return push(document_.big_integer(bytes));
        bytes.remove_suffix(1);
    }
    std::uint64_t value = !bytes.empty() && (bytes.back() & 0x80) != 0 ? ~std::uint64_t{0} : 0;
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
    push(document_.integer(static_cast<std::int64_t>(value)));
}

void PickleMachine::push_decimal(std::string_view digits) {
    if (digits == "00" || digits == "01") return push(Value::boolean(digits == "01"));
    if (digits.ends_with('L')) digits.remove_suffix(1);
    push_integer(two_complement(digits));
}

void PickleMachine::push_decimal_real(std::string_view digits) {
    double value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc{} || end != digits.data() + digits.size()) throw failure("malformed float");
    push(document_.real(value));
}

void PickleMachine::push_real(std::uint64_t big_endian) {
    push(document_.real(std::bit_cast<double>(__builtin_bswap64(big_endian))));
}

void PickleMachine::push_bytearray(std::string_view data) {
    const Value content = document_.bytes(data);
    push(document_.object(document_.global("builtins", "bytearray"), document_.tuple({&content, 1})));
}

void PickleMachine::push_tuple(std::size_t size) {
    if (stack_.size() < floor() + size) throw failure("the stack is empty");
    const Value tuple = document_.tuple(std::span{stack_}.last(size));
    drop_from(stack_.size() - size);
    push(tuple);
}

std::span<const Entry> PickleMachine::pairs(std::span<const Value> flat) {
    if (flat.size() % 2 != 0) throw failure("a key has no value");
    pairs_.clear();
    for (std::size_t i = 0; i < flat.size(); i += 2) pairs_.push_back({flat[i], flat[i + 1]});
    return pairs_;
}

void PickleMachine::push_dict() { push(document_.dict(pairs(pop_mark()))); }

void PickleMachine::append_one() {
    const Value item = pop();
    document_.append(top(), {&item, 1});
    nest_in_top();
}

void PickleMachine::append_marked() {
    const std::span<const Value> items = pop_mark();
    document_.append(top(), items);
    nest_in_top();
}

void PickleMachine::set_one() {
    const Value value = pop();
    const Entry entry{pop(), value};
    document_.insert(top(), {&entry, 1});
    nest_in_top();
}

void PickleMachine::set_marked() {
    const std::span<const Value> items = pop_mark();
    document_.insert(top(), pairs(items));
    nest_in_top();
}

}  // namespace tpx::torch
