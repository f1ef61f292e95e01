// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/dequantize.hpp"

#include "lib/core/error.hpp"
#include "lib/exec/copy_elements.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace tpx {

// Whole rows, or a part of one row.
struct Dequantizer::Run {
    Index row = 0;
    Index rows = 0;
    Index column = 0;
    Index columns = 0;

    Index elements() const { return rows * columns; }
};

namespace {

using Code = ScaledCodes::Code;
using Packing = ScaledCodes::Packing;
using Table = std::array<float, 256>;

/// Elements that are computed at a time.
constexpr Index codes_at_once = 1 << 16;

/// The value of a float of `exponent_bits` and `mantissa_bits` with the usual bias and no special values.
float small_float(unsigned code, int exponent_bits, int mantissa_bits) {
    const unsigned mantissa = code & ((1u << mantissa_bits) - 1);
    const auto exponent = static_cast<int>(code >> mantissa_bits & ((1u << exponent_bits) - 1));
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const float fraction = static_cast<float>(mantissa) / static_cast<float>(1u << mantissa_bits);
    const float value = exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
    return (code >> (exponent_bits + mantissa_bits) & 1) != 0 ? -value : value;
}

float with_sign(unsigned code, float magnitude) { return std::copysign(magnitude, (code & 0x80) != 0 ? -1.0f : 1.0f); }

float value_of(Code code, int bits, unsigned stored) {
    switch (code) {
        case Code::f8_e4m3:
            return (stored & 0x7f) == 0x7f ? with_sign(stored, std::nanf("")) : small_float(stored, 4, 3);
        case Code::f8_e5m2:
            if ((stored & 0x7f) == 0x7c) return with_sign(stored, HUGE_VALF);
            return (stored & 0x7f) > 0x7c ? with_sign(stored, std::nanf("")) : small_float(stored, 5, 2);
        case Code::f4_e2m1:
            return small_float(stored, 2, 1);
        case Code::signed_integer:
            return static_cast<float>(static_cast<std::int8_t>(stored << (8 - bits)) >> (8 - bits));
        case Code::offset_integer:
            return static_cast<float>(static_cast<int>(stored) - (1 << (bits - 1)));
        case Code::unsigned_integer:
            return static_cast<float>(stored);
    }
    throw failure("code {} has no values", static_cast<int>(code));
}

/// Scales of u8 are exponents without a NaN and reach 2^128, which f32 cannot represent, although 0.5 * 2^128 and 0 *
/// 2^128 are finite. So half of each scale is multiplied by twice the code, which rounds to the same value.
bool is_halved(DType scales) { return scales == DType::u8; }

/// The values of all codes, or twice these values if is_halved().
Table table_of(const ScaledCodes& tensor) {
    Table table{};
    const float factor = is_halved(tensor.scales.dtype) ? 2.0f : 1.0f;
    for (unsigned stored = 0; stored < 1u << tensor.bits; ++stored)
        table[stored] = factor * value_of(tensor.code, tensor.bits, stored);
    return table;
}

bool is_exponent(DType dtype) { return dtype == DType::u8 || dtype == DType::f8_e8m0; }

/// Converts stored numbers to f32: exponents to powers of two, or to half of these if is_halved().
void widen(std::span<const std::byte> stored, DType dtype, std::span<float> into) {
    const auto count = static_cast<Index>(into.size());
    if (dtype == DType::i8) {
        std::ranges::transform(stored, into.begin(), [](std::byte b) { return float(static_cast<std::int8_t>(b)); });
    } else if (dtype == DType::f8_e4m3) {
        std::ranges::transform(stored, into.begin(),
                               [](std::byte b) { return value_of(Code::f8_e4m3, 8, std::to_integer<unsigned>(b)); });
    } else if (is_exponent(dtype)) {
        const bool halved = is_halved(dtype);
        std::ranges::transform(stored, into.begin(), [halved](std::byte b) {
            const int exponent = std::to_integer<int>(b);
            if (exponent == 255 && !halved) return std::nanf("");
            return std::ldexp(1.0f, exponent - (halved ? 128 : 127));
        });
    } else {
        cast_elements(count, stored.data(), dtype, reinterpret_cast<std::byte*>(into.data()), DType::f32);
    }
}

/// The index of the code of column `c` among the codes of a row.
Index place_in_row(ScaledCodes::Packing packing, Index c) {
    constexpr std::array<Index, 8> places{0, 4, 1, 5, 2, 6, 3, 7};
    return packing == Packing::interleaved ? c / 8 * 8 + places[static_cast<std::size_t>(c % 8)] : c;
}

/// The code at index `place`. Codes of 3 bits may cross the boundaries of bytes and words.
unsigned code_at(const std::byte* words, int bits, Index place) {
    const Index bit = place * bits;
    const auto shift = static_cast<unsigned>(bit % 8);
    unsigned code = std::to_integer<unsigned>(words[bit / 8]) >> shift;
    if (shift + static_cast<unsigned>(bits) > 8) code |= std::to_integer<unsigned>(words[bit / 8 + 1]) << (8 - shift);
    return code & ((1u << bits) - 1);
}

constexpr Index word_bits = 32;

/// The code of row `r` in one column. `words` points to the word that contains the first bit of row `first`; the next
/// word of the column is `row_bytes` after it.
unsigned code_in_column(const std::byte* words, std::uint64_t row_bytes, int bits, Index first, Index r) {
    const Index begin = r * bits;
    unsigned code = 0;
    for (Index bit = begin; bit < begin + bits;) {  // a code spans at most two words
        const Index from = bit % word_bits, count = std::min(begin + bits - bit, word_bits - from);
        const auto row = static_cast<std::uint64_t>(bit / word_bits - first * bits / word_bits);
        std::uint32_t word = 0;
        std::memcpy(&word, words + row * row_bytes, sizeof word);
        code |= (word >> from & ((1u << count) - 1)) << (bit - begin);
        bit += count;
    }
    return code;
}

/// Values of 4-bit codes from code `first` on.
void look_up_nibbles(const std::byte* codes, const Table& table, Index first, std::span<float> into) {
    for (std::size_t k = 0; k < into.size(); ++k) {
        const std::uint64_t at = static_cast<std::uint64_t>(first) + k;
        const unsigned both = std::to_integer<unsigned>(codes[at / 2]);
        into[k] = table[at % 2 == 0 ? both & 15 : both >> 4];
    }
}

}  // namespace

Dequantizer::Run Dequantizer::run_from(const ScaledCodes& tensor, Index element, Index count) const {
    Run run{element / tensor.columns, 1, element % tensor.columns, 0};
    run.columns = std::min({count, tensor.columns - run.column, codes_at_once});
    // With groups, neighboring rows may need scales that are far apart.
    if (run.columns == tensor.columns && !tensor.groups)
        run.rows = std::max<Index>(1, std::min(count, codes_at_once) / tensor.columns);
    return run;
}

void Dequantizer::read_codes(const ScaledCodes& tensor, const Run& run, const Read& read) {
    if (tensor.packing != Packing::rows) return read_words(tensor, run, read);
    const auto begin = static_cast<std::uint64_t>(run.column * tensor.bits / 8);
    const auto end = static_cast<std::uint64_t>(((run.column + run.columns) * tensor.bits + 7) / 8);
    const std::uint64_t first = static_cast<std::uint64_t>(run.row) * tensor.row_bytes + begin;
    const std::uint64_t size = static_cast<std::uint64_t>(run.rows - 1) * tensor.row_bytes + end - begin;
    codes_.resize(size);
    read(tensor.codes.file, tensor.codes.offset + first, codes_);
}

// Reads whole rows of words, because codes of eight columns or of several rows share a word.
void Dequantizer::read_words(const ScaledCodes& tensor, const Run& run, const Read& read) {
    Index first = run.row, last = run.row + run.rows - 1;
    if (tensor.packing == Packing::columns) {
        first = first * tensor.bits / word_bits;
        last = ((last + 1) * tensor.bits - 1) / word_bits;
    }
    codes_.resize(static_cast<std::uint64_t>(last - first + 1) * tensor.row_bytes);
    read(tensor.codes.file, tensor.codes.offset + static_cast<std::uint64_t>(first) * tensor.row_bytes, codes_);
}

void Dequantizer::read_scales(const ScaledCodes& tensor, const Run& run, const Read& read) {
    const Index first = tensor.scale_of(run.row, run.column);
    const Index last = tensor.scale_of(run.row + run.rows - 1, run.column + run.columns - 1);
    const auto read_part = [&](const ScaledCodes::Part& part, std::vector<float>& into) {
        const auto size = static_cast<std::uint64_t>(itemsize(part.dtype));
        into.resize(static_cast<std::size_t>(last - first + 1));
        stored_.resize(into.size() * size);
        read(part.file, part.offset + static_cast<std::uint64_t>(first) * size, stored_);
        widen(stored_, part.dtype, into);
    };
    read_part(tensor.scales, scales_);
    for (float& scale : scales_) scale = scale * tensor.scale_factor / tensor.scale_divisor;
    if (!tensor.zeros) return;
    if (tensor.zeros->dtype == DType::i32) return read_packed_zeros(tensor, first, last, read);
    read_part(*tensor.zeros, zeros_);
}

// Each row of zeros consists of whole words.
void Dequantizer::read_packed_zeros(const ScaledCodes& tensor, Index first, Index last, const Read& read) {
    const Index columns = tensor.scale_columns(), row = first / columns;
    const auto bits = static_cast<std::uint64_t>(tensor.bits);
    const std::uint64_t row_bytes = static_cast<std::uint64_t>(columns) * bits / 8;
    stored_.resize(static_cast<std::uint64_t>(last / columns - row + 1) * row_bytes);
    read(tensor.zeros->file, tensor.zeros->offset + static_cast<std::uint64_t>(row) * row_bytes, stored_);
    zeros_.clear();
    const unsigned mask = (1u << tensor.bits) - 1;
    for (Index at = first; at <= last; ++at) {
        const std::byte* words = stored_.data() + static_cast<std::uint64_t>(at / columns - row) * row_bytes;
        const unsigned stored = code_at(words, tensor.bits, place_in_row(tensor.zero_packing, at % columns));
        zeros_.push_back(static_cast<float>((stored + static_cast<unsigned>(tensor.zero_offset)) & mask));
    }
}

// compute() for codes in words, where each column has a scale of its own.
void Dequantizer::compute_words(const ScaledCodes& tensor, const Run& run) {
    const Index first = tensor.scale_of(run.row, run.column);
    const bool in_columns = tensor.packing == Packing::columns;
    values_.resize(static_cast<std::size_t>(run.elements()));
    float* out = values_.data();
    for (Index r = run.row; r < run.row + run.rows; ++r) {
        const std::byte* row =
            codes_.data() + static_cast<std::uint64_t>(in_columns ? 0 : r - run.row) * tensor.row_bytes;
        auto scale = static_cast<std::size_t>(tensor.scale_of(r, run.column) - first);
        for (Index c = run.column; c < run.column + run.columns; ++c, ++scale) {
            const unsigned stored =
                in_columns ? code_in_column(row + c * (word_bits / 8), tensor.row_bytes, tensor.bits, run.row, r)
                           : code_at(row, tensor.bits, place_in_row(tensor.packing, c));
            const auto code = static_cast<float>(stored);
            *out++ = (code - (tensor.zeros ? zeros_[scale] : 0.0f)) * scales_[scale];
        }
    }
}

void Dequantizer::compute(const ScaledCodes& tensor, const Run& run) {
    if (tensor.packing != Packing::rows) return compute_words(tensor, run);
    const Table table = table_of(tensor);
    const Index first = tensor.scale_of(run.row, run.column);
    values_.resize(static_cast<std::size_t>(run.elements()));
    float* out = values_.data();
    for (Index r = 0; r < run.rows; ++r) {
        const std::byte* codes = codes_.data() + static_cast<std::uint64_t>(r) * tensor.row_bytes;
        const Index odd = tensor.bits == 4 ? run.column % 2 : 0;
        for (Index c = 0; c < run.columns;) {
            const Index column = run.column + c;
            const Index end = std::min(run.columns, c + tensor.block_columns - column % tensor.block_columns);
            const auto at = static_cast<std::size_t>(tensor.scale_of(run.row + r, column) - first);
            const std::span<float> block{out + c, static_cast<std::size_t>(end - c)};
            if (tensor.bits == 4)
                look_up_nibbles(codes, table, c + odd, block);
            else
                for (Index k = c; k < end; ++k) out[k] = table[std::to_integer<unsigned>(codes[k])];
            if (tensor.zeros)
                for (float& value : block) value -= zeros_[at];
            for (float& value : block) value *= scales_[at];
            c = end;
        }
        out += run.columns;
    }
}

void Dequantizer::read(const ScaledCodes& tensor, std::uint64_t offset, std::span<std::byte> into, const Read& read) {
    const auto size = static_cast<std::size_t>(itemsize(tensor.dtype));
    if (offset % size != 0 || into.size() % size != 0)
        throw failure("{} bytes from {} are not whole elements of {}", into.size(), offset, name(tensor.dtype));
    auto element = static_cast<Index>(offset / size);
    while (!into.empty()) {
        const Run run = run_from(tensor, element, static_cast<Index>(into.size() / size));
        read_codes(tensor, run, read);
        read_scales(tensor, run, read);
        compute(tensor, run);
        const auto part = into.first(values_.size() * size);
        cast_elements(run.elements(), reinterpret_cast<const std::byte*>(values_.data()), DType::f32, part.data(),
                      tensor.dtype);
        into = into.subspan(part.size());
        element += run.elements();
    }
}

}  // namespace tpx
