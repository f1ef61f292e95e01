// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/coding.hpp"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>

namespace tpx::test {

/// The elements of a chunk that HDF5's scale-offset filter stored in `bytes`, decoded with a string of bits.
inline std::string unscaled(const ScaleOffset& filter, const std::string& bytes, std::size_t size) {
    if (filter.is_identity) return bytes;
    const auto number = [](const std::string& text) {
        std::uint64_t value = 0;
        for (std::size_t k = text.size(); k-- > 0;) value = value * 256 + static_cast<unsigned char>(text[k]);
        return value;
    };
    const std::uint64_t width = number(bytes.substr(0, 4)), minimum = number(bytes.substr(5, 8));
    if (width == 8 * filter.item) return bytes.substr(21, size);
    std::string bits, all;
    for (const char byte : bytes.substr(21))
        for (int k = 7; k >= 0; --k) bits += (byte >> k & 1) != 0 ? '1' : '0';
    for (std::size_t i = 0; i < size / filter.item; ++i) {
        const std::string code = bits.substr(i * width, width);
        std::uint64_t value = width == 0 ? 0 : std::stoull(code, nullptr, 2);
        const bool filled = filter.fill && code.find('0') == std::string::npos;
        if (filled) value = *filter.fill;
        if (!filled && !filter.is_real) value += minimum;
        if (!filled && filter.is_real && filter.item == 4)
            value = std::bit_cast<std::uint32_t>(static_cast<float>(value) /
                                                     std::pow(10.0F, static_cast<float>(filter.decimals)) +
                                                 std::bit_cast<float>(static_cast<std::uint32_t>(minimum)));
        if (!filled && filter.is_real && filter.item == 8)
            value = std::bit_cast<std::uint64_t>(static_cast<double>(value) / std::pow(10.0, filter.decimals) +
                                                 std::bit_cast<double>(minimum));
        std::string element(reinterpret_cast<const char*>(&value), filter.item);
        if (filter.is_big_endian) std::reverse(element.begin(), element.end());
        all += element;
    }
    return all;
}

/// The decoded content of a file with a coding, byte by byte; shares no code with the reader under test.
inline std::string decoded(const std::string& file, const Coding& coding) {
    std::string all;
    for (std::size_t k = 0; k < coding.chunks.size(); ++k) {
        const Coding::Chunk& chunk = coding.chunks[k];
        const std::uint64_t size = std::min(coding.chunk_size, coding.size - k * coding.chunk_size);
        if (chunk.length == 0) {
            for (std::uint64_t i = 0; i < size; ++i)
                all += coding.fill.empty() ? '\0' : coding.fill[i % coding.fill.size()];
            continue;
        }
        std::string bytes = file.substr(chunk.offset, chunk.length);
        for (std::size_t f = coding.filters.size(); f-- > 0;) {
            const Coding::Filter filter = coding.filters[f];
            if ((chunk.skipped >> f & 1) != 0) continue;
            if (filter == Coding::Filter::fletcher32) bytes.resize(bytes.size() - 4);
            if (filter == Coding::Filter::deflate) {
                std::string inflated(size + 4, '\0');
                uLongf length = inflated.size();
                if (::uncompress(reinterpret_cast<Bytef*>(inflated.data()), &length,
                                 reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) != Z_OK)
                    throw std::runtime_error{"zlib cannot read a chunk"};
                bytes = inflated.substr(0, length);
            }
            if (filter == Coding::Filter::lzf) {
                std::string plain;
                for (std::size_t at = 0; at < bytes.size();) {
                    const unsigned control = static_cast<unsigned char>(bytes[at++]);
                    if (control < 32) {
                        plain += bytes.substr(at, control + 1);
                        at += control + 1;
                        continue;
                    }
                    unsigned length = control / 32 + 2;
                    if (length == 9) length += static_cast<unsigned char>(bytes.at(at++));
                    const std::size_t back = control % 32 * 256 + static_cast<unsigned char>(bytes.at(at++)) + 1;
                    for (unsigned i = 0; i < length; ++i) plain += plain.at(plain.size() - back);
                }
                bytes = plain;
            }
            if (filter == Coding::Filter::scale_offset) bytes = unscaled(coding.scale_offset.value(), bytes, size);
            if (filter == Coding::Filter::raw_deflate) {
                std::string inflated(size, '\0');
                z_stream stream{};
                stream.next_in = reinterpret_cast<Bytef*>(bytes.data());
                stream.avail_in = static_cast<uInt>(bytes.size());
                stream.next_out = reinterpret_cast<Bytef*>(inflated.data());
                stream.avail_out = static_cast<uInt>(size);
                inflateInit2(&stream, -15);
                if (inflate(&stream, Z_FINISH) != Z_STREAM_END) throw std::runtime_error{"no deflate stream"};
                inflateEnd(&stream);
                bytes = inflated;
            }
            const std::size_t item = coding.item, items = bytes.size() / item;
            std::string moved = bytes;
            for (std::size_t i = 0; i < items; ++i) {
                for (std::size_t b = 0; b < item; ++b) {
                    if (filter == Coding::Filter::shuffle) moved[i * item + b] = bytes[b * items + i];
                }
            }
            bytes = moved;
        }
        const bool swapped = std::ranges::count(coding.filters, Coding::Filter::swap) > 0;
        for (std::size_t i = 0; swapped && i + coding.item <= bytes.size(); i += coding.item)
            std::reverse(bytes.data() + i, bytes.data() + i + coding.item);
        all += bytes;
    }
    return all;
}

}  // namespace tpx::test
