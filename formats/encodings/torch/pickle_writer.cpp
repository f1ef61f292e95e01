// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/pickle_writer.hpp"

#include "formats/encodings/torch/globals.hpp"
#include "formats/encodings/torch/text.hpp"
#include "lib/core/error.hpp"

#include <bit>
#include <cstring>
#include <limits>
#include <utility>

namespace tpx::torch {

PickleWriter::PickleWriter() { out_ = "\x80\x02"; }

void PickleWriter::little(std::uint64_t value, std::size_t bytes) {
    out_.append(reinterpret_cast<const char*>(&value), bytes);
}

void PickleWriter::put(std::uint32_t slot) {
    opcode(slot < 256 ? 'q' : 'r');
    little(slot, slot < 256 ? 1 : 4);
}

void PickleWriter::get(std::uint32_t slot) {
    opcode(slot < 256 ? 'h' : 'j');
    little(slot, slot < 256 ? 1 : 4);
}

void PickleWriter::none() { opcode('N'); }

void PickleWriter::boolean(bool value) { opcode(value ? '\x88' : '\x89'); }

void PickleWriter::integer(std::int64_t value) {
    if (0 <= value && value < 0x100) {
        opcode('K');
        little(static_cast<std::uint64_t>(value), 1);
    } else if (0 <= value && value < 0x10000) {
        opcode('M');
        little(static_cast<std::uint64_t>(value), 2);
    } else if (value == static_cast<std::int32_t>(value)) {
        opcode('J');
        little(static_cast<std::uint64_t>(value), 4);
    } else {
        std::size_t bytes = sizeof value;
        while (bytes > 1 && value >> (8 * bytes - 9) == value >> 63) --bytes;
        opcode('\x8a');
        little(bytes, 1);
        little(static_cast<std::uint64_t>(value), bytes);
    }
}

void PickleWriter::big_integer(std::string_view two_complement) {
    opcode(two_complement.size() < 0x100 ? '\x8a' : '\x8b');
    little(two_complement.size(), two_complement.size() < 0x100 ? 1 : 4);
    out_ += two_complement;
}

void PickleWriter::real(double value) {
    opcode('G');
    little(__builtin_bswap64(std::bit_cast<std::uint64_t>(value)), sizeof value);
}

void PickleWriter::string(std::string_view text) {
    const auto [place, added] = strings_.try_emplace(std::string{text}, next_slot_);
    if (!added) return get(place->second);
    if (text.size() > std::numeric_limits<std::uint32_t>::max())
        throw failure("a str of {} bytes is too long for pickle protocol 2", text.size());
    opcode('X');
    little(text.size(), 4);
    out_ += text;
    put(next_slot_++);
}

void PickleWriter::bytes(std::string_view data) {
    global("_codecs", "encode");
    string(latin1_to_utf8(data));
    string("latin1");
    short_tuple(2);
    reduce();
}

void PickleWriter::global(std::string_view module, std::string_view name) {
    std::string line{python2_module(module)};
    line.append("\n").append(name).append("\n");
    const auto [place, added] = globals_.try_emplace(line, next_slot_);
    if (!added) return get(place->second);
    opcode('c');
    out_ += line;
    put(next_slot_++);
}

void PickleWriter::size(std::span<const std::int64_t> dimensions) {
    global("torch", "Size");
    if (dimensions.size() > 3) mark();
    for (const std::int64_t dimension : dimensions) integer(dimension);
    dimensions.size() > 3 ? tuple() : dimensions.empty() ? empty_tuple() : short_tuple(dimensions.size());
    short_tuple(1);
    reduce();
}

void PickleWriter::mark() { opcode('('); }
void PickleWriter::tuple() { opcode('t'); }
void PickleWriter::empty_tuple() { opcode(')'); }
void PickleWriter::short_tuple(std::size_t size) { opcode("\x85\x86\x87"[size - 1]); }
void PickleWriter::empty_list() { opcode(']'); }
void PickleWriter::appends() { opcode('e'); }
void PickleWriter::empty_dict() { opcode('}'); }
void PickleWriter::set_items() { opcode('u'); }
void PickleWriter::reduce() { opcode('R'); }
void PickleWriter::new_object() { opcode('\x81'); }
void PickleWriter::build() { opcode('b'); }
void PickleWriter::persistent() { opcode('Q'); }

std::string PickleWriter::finish() {
    opcode('.');
    std::string result = std::exchange(out_, "\x80\x02");
    next_slot_ = 0;
    strings_.clear();
    globals_.clear();
    return result;
}

std::string write_pickle(Value root, StorageIds ids) {
    PickleWriter writer;
    writer.value(root, ids);
    return writer.finish();
}

}  // namespace tpx::torch
