// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/decode.hpp"

#include "lib/core/error.hpp"
#include "lib/exec/adapter_merger.hpp"
#include "lib/exec/dequantize.hpp"
#include "lib/exec/quantize.hpp"
#include "lib/exec/scale_offset.hpp"

#include <zlib.h>

#include <cstring>
#include <limits>

namespace tpx {
namespace {

constexpr std::size_t checksum_size = 4;

struct Inflater {
    explicit Inflater(int window) {
        if (inflateInit2(&stream, window) != Z_OK) throw failure("zlib has no memory");
    }
    ~Inflater() { inflateEnd(&stream); }
    Inflater(const Inflater&) = delete;
    Inflater& operator=(const Inflater&) = delete;

    z_stream stream{};
};

// zlib counts in 32 bits.
uInt zlib_count(std::size_t bytes) {
    return static_cast<uInt>(std::min<std::size_t>(bytes, std::numeric_limits<uInt>::max()));
}

/// Inflates `from` and returns the size of the result. Throws Error if it does not fit into `into`.
std::size_t inflate_all(std::span<const std::byte> from, std::span<std::byte> into, bool raw) {
    Inflater inflater{raw ? -MAX_WBITS : MAX_WBITS};
    z_stream& stream = inflater.stream;
    const std::byte* next = from.data();
    std::byte* out = into.data();
    std::byte spill{};  // receives the first byte too many, if there is one
    bool full = into.empty();
    for (int state = Z_OK; state != Z_STREAM_END;) {
        stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(next));
        stream.avail_in = zlib_count(static_cast<std::size_t>(from.data() + from.size() - next));
        stream.next_out = reinterpret_cast<Bytef*>(full ? &spill : out);
        stream.avail_out = full ? 1 : zlib_count(static_cast<std::size_t>(into.data() + into.size() - out));
        const std::byte* before = next;
        const uInt room = stream.avail_out;
        state = inflate(&stream, Z_NO_FLUSH);
        next = reinterpret_cast<const std::byte*>(stream.next_in);
        const uInt made = room - stream.avail_out;
        if (full && made > 0) throw failure("inflates to more than {} bytes", into.size());
        if (!full) out += made;
        full = out == into.data() + into.size();
        if (state != Z_OK && state != Z_STREAM_END && state != Z_BUF_ERROR)
            throw failure("is not a deflate stream: {}", stream.msg != nullptr ? stream.msg : "zlib cannot read it");
        if (state != Z_STREAM_END && made == 0 && next == before)
            throw failure("is a deflate stream without its end ({} bytes)", from.size());
    }
    return static_cast<std::size_t>(out - into.data());
}

/// Decompresses an LZF stream: runs of literal bytes, and copies of earlier output. Returns the size of the result.
/// Throws Error if it does not fit into `into`.
std::size_t decompress_lzf(std::span<const std::byte> from, std::span<std::byte> into) {
    constexpr unsigned most_literals = 32, longest_short = 7;
    std::size_t at = 0, out = 0;
    const auto next = [&] {
        if (at == from.size()) throw failure("is a truncated LZF stream ({} bytes)", from.size());
        return std::to_integer<unsigned>(from[at++]);
    };
    const auto check_room = [&](std::size_t length) {
        if (length > into.size() - out) throw failure("decompresses to more than {} bytes", into.size());
    };
    while (at < from.size()) {
        const unsigned control = next();
        if (control < most_literals) {
            const std::size_t length = control + 1;
            if (length > from.size() - at) throw failure("is a truncated LZF stream ({} bytes)", from.size());
            check_room(length);
            std::memcpy(into.data() + out, from.data() + at, length);
            at += length;
            out += length;
            continue;
        }
        std::size_t length = control >> 5;
        if (length == longest_short) length += next();
        length += 2;
        const std::size_t back = ((control & 0x1f) << 8) + next() + 1;
        if (back > out) throw failure("is an invalid LZF stream: it copies from {} bytes before its start", back - out);
        check_room(length);
        for (std::size_t end = out + length; out < end; ++out) into[out] = into[out - back];
    }
    return out;
}

/// Undoes a filter that compresses, and returns the size of the result. Throws Error if it does not fit into `into`,
/// or if it is smaller although its size is known to be that of `into`.
std::size_t decompress(const Coding& coding, Coding::Filter filter, std::span<const std::byte> from,
                       std::span<std::byte> into, bool size_is_known) {
    if (filter == Coding::Filter::scale_offset) {
        if (!size_is_known) throw failure("has a scale-offset filter after compression");
        undo_scale_offset(coding.scale_offset.value(), from, into);
        return into.size();
    }
    const bool lzf = filter == Coding::Filter::lzf;
    const std::size_t size =
        lzf ? decompress_lzf(from, into) : inflate_all(from, into, filter == Coding::Filter::raw_deflate);
    if (size_is_known && size != into.size())
        throw failure("{} to {} bytes instead of {}", lzf ? "decompresses" : "inflates", size, into.size());
    return size;
}

void unshuffle(std::span<const std::byte> from, std::span<std::byte> into, std::size_t item) {
    const std::size_t items = from.size() / item;
    for (std::size_t k = 0; k < item; ++k) {
        const std::byte* column = from.data() + k * items;
        std::byte* out = into.data() + k;
        for (std::size_t i = 0; i < items; ++i, out += item) *out = column[i];
    }
    if (items * item < from.size())
        std::memcpy(into.data() + items * item, from.data() + items * item, from.size() - items * item);
}

void swap_items(std::span<std::byte> bytes, std::size_t item) {
    for (std::size_t at = 0; at + item <= bytes.size(); at += item)
        std::reverse(bytes.data() + at, bytes.data() + at + item);
}

/// Inverts the sign of each `step`th little-endian IEEE number of `item` bytes, from number `first` on.
void turn_signs(std::span<std::byte> bytes, std::size_t item, std::size_t first, std::size_t step) {
    for (std::size_t end = (first + 1) * item; end <= bytes.size(); end += step * item)
        bytes[end - 1] ^= std::byte{0x80};
}

void check_sum(std::span<const std::byte> bytes) {
    const auto content = bytes.first(bytes.size() - checksum_size);
    std::uint32_t stored = 0;
    for (int k = 3; k >= 0; --k) stored = stored << 8 | std::to_integer<std::uint32_t>(bytes[content.size() + k]);
    const std::uint32_t sum = fletcher32(content);
    // HDF5 before 1.6.3 swapped the bytes of each half on little-endian machines.
    const std::uint32_t old = (sum & 0x00ff00ff) << 8 | (sum >> 8 & 0x00ff00ff);
    if (stored != sum && stored != old) throw failure("checksum {:08x} is stored, its bytes have {:08x}", stored, sum);
}

}  // namespace

std::uint32_t fletcher32(std::span<const std::byte> bytes) {
    std::uint32_t low = 0, high = 0;
    const auto fold = [](std::uint32_t sum) { return (sum & 0xffff) + (sum >> 16); };
    constexpr std::size_t words_at_once = 360;  // so few that the sums fit into 32 bits
    const std::size_t words = bytes.size() / 2;
    for (std::size_t word = 0; word < words;) {
        const std::size_t end = std::min(words, word + words_at_once);
        for (; word < end; ++word) {
            low += std::to_integer<std::uint32_t>(bytes[2 * word]) << 8 |
                   std::to_integer<std::uint32_t>(bytes[2 * word + 1]);
            high += low;
        }
        low = fold(low);
        high = fold(high);
    }
    if (bytes.size() % 2 != 0) {
        low += std::to_integer<std::uint32_t>(bytes.back()) << 8;
        high += low;
        low = fold(low);
        high = fold(high);
    }
    return fold(high) << 16 | fold(low);
}

std::span<std::byte> Decoder::stored(std::uint64_t length) {
    if (stored_.size() < length) stored_.resize(length);
    length_ = length;
    return std::span{stored_}.first(length);
}

void Decoder::decode(const Coding& coding, std::uint32_t skipped, std::span<std::byte> into) {
    using Filter = Coding::Filter;
    // The number of bytes before each filter; after a scale-offset filter, the largest possible number. After other
    // compression, only the stored length determines it.
    std::size_t plain = into.size();
    bool swapped = false, negated = false, conjugated = false, size_is_known = true;
    struct Step {
        Filter filter;
        std::size_t size;
        bool size_is_known;
    };
    std::vector<Step> undo;
    for (std::size_t k = 0; k < coding.filters.size(); ++k) {
        if (k < 32 && (skipped >> k & 1) != 0) continue;
        const Filter filter = coding.filters[k];
        swapped |= filter == Filter::swap;
        negated |= filter == Filter::negate;
        conjugated |= filter == Filter::conjugate;
        if (filter >= Filter::swap || (filter == Filter::scale_offset && coding.scale_offset.value().is_identity))
            continue;
        undo.push_back({filter, plain, size_is_known});
        if (filter == Filter::fletcher32) plain += checksum_size;
        if (filter != Filter::scale_offset) continue;
        plain += scale_offset_overhead;
        size_is_known = false;
    }
    std::span<std::byte> bytes = std::span{stored_}.first(length_);
    for (std::size_t k = undo.size(); k-- > 0;) {
        const auto [filter, size, known] = undo[k];
        if (filter == Filter::fletcher32) {
            if (bytes.size() < checksum_size) throw failure("{} bytes have no checksum", bytes.size());
            check_sum(bytes);
            bytes = bytes.first(bytes.size() - checksum_size);
            continue;
        }
        if (filter == Filter::shuffle && (known ? bytes.size() != size : bytes.size() > size))
            throw failure("{} bytes are stored of {}", bytes.size(), size);
        const bool last = k == 0 && size == into.size();
        std::span<std::byte> to = into;
        if (!last) {
            spare_.resize(std::max(spare_.size(), size));
            to = std::span{spare_}.first(size);
        }
        if (filter == Filter::shuffle) {
            to = to.first(bytes.size());
            unshuffle(bytes, to, coding.item);
        } else {
            to = to.first(decompress(coding, filter, bytes, to, known));
        }
        if (!last) std::swap(stored_, spare_);
        bytes = to;
    }
    if (bytes.size() != into.size()) throw failure("{} bytes are stored of {}", bytes.size(), into.size());
    if (bytes.data() != into.data()) std::memcpy(into.data(), bytes.data(), bytes.size());
    if (swapped) swap_items(into, coding.item);
    if (negated) turn_signs(into, coding.item, 0, 1);
    if (conjugated) turn_signs(into, coding.item, 1, 2);
}

std::uint64_t decoding_memory(const Coding& coding) {
    if (const MergedWeight* merged = merged_weight(coding)) return merging_memory(*merged);
    if (coding.quantized) return quantizing_memory(*coding.quantized);
    if (coding.is_computed()) return dequantizing_memory;
    std::uint64_t longest = 0;
    for (const Coding::Chunk& chunk : coding.chunks) longest = std::max(longest, chunk.length);
    if (longest == 0) return 0;
    // The chunk itself, and two buffers between which filters alternate.
    return coding.chunk_size + 2 * std::max(longest, coding.chunk_size + checksum_size + scale_offset_overhead);
}

}  // namespace tpx
