// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/coding.hpp"

#include <zlib.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace tpx::test {

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
