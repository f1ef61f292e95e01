// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/scale_offset.hpp"

#include "lib/core/error.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace tpx {
namespace {

// A chunk begins with the number of bits of a code (4 bytes), the number of bytes of the minimum (1) and the minimum
// (up to 16 bytes). The codes follow without gaps, the most significant bit first.
constexpr std::size_t bits_at = 0, width_at = 4, minimum_at = 5, codes_at = 21;

std::uint64_t little_endian(std::span<const std::byte> bytes) {
    std::uint64_t value = 0;
    for (std::size_t k = bytes.size(); k-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(bytes[k]);
    return value;
}

/// Reads codes of `bits` bits each.
class Codes {
public:
    Codes(std::span<const std::byte> bytes, unsigned bits) : bytes_{bytes}, bits_{bits} {}

    std::uint64_t next() {
        std::uint64_t code = 0;
        for (unsigned wanted = bits_; wanted > 0;) {
            const unsigned used = static_cast<unsigned>(at_ % 8), taken = std::min(wanted, 8 - used);
            const unsigned byte = std::to_integer<unsigned>(bytes_[at_ / 8]);
            code = code << taken | (byte >> (8 - used - taken) & ((1U << taken) - 1));
            at_ += taken;
            wanted -= taken;
        }
        return code;
    }

private:
    std::span<const std::byte> bytes_;
    unsigned bits_;
    std::size_t at_ = 0;  // in bits
};

/// The value of a code of a real dataset, as libhdf5 computes it: in the precision of the dataset.
template <class Real>
std::uint64_t real_value(const ScaleOffset& filter, std::uint64_t code, std::uint64_t minimum) {
    using Bits = std::conditional_t<sizeof(Real) == 4, std::uint32_t, std::uint64_t>;
    using Signed = std::make_signed_t<Bits>;
    Real least = 0;
    const auto stored = static_cast<Bits>(minimum);
    std::memcpy(&least, &stored, sizeof least);
    const Real scale = std::pow(Real{10}, static_cast<Real>(filter.decimals));
    const Real value = static_cast<Real>(static_cast<Signed>(static_cast<Bits>(code))) / scale + least;
    Bits bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

std::uint64_t value_of(const ScaleOffset& filter, std::uint64_t code, std::uint64_t minimum) {
    if (!filter.is_real) return code + minimum;  // in two's complement, this is also right for signed numbers
    return filter.item == 4 ? real_value<float>(filter, code, minimum) : real_value<double>(filter, code, minimum);
}

void swap_bytes(std::span<std::byte> bytes, std::size_t item) {
    for (std::size_t at = 0; at + item <= bytes.size(); at += item)
        std::reverse(bytes.data() + at, bytes.data() + at + item);
}

}  // namespace

void undo_scale_offset(const ScaleOffset& filter, std::span<const std::byte> from, std::span<std::byte> into) {
    if (from.size() < codes_at) throw failure("is {} bytes of scale-offset data, too few for a header", from.size());
    const auto bits = static_cast<unsigned>(little_endian(from.subspan(bits_at, 4)));
    const std::size_t width = std::min<std::size_t>(std::to_integer<std::size_t>(from[width_at]), 8);
    const std::uint64_t minimum = little_endian(from.subspan(minimum_at, width));
    const auto codes = from.subspan(codes_at);
    if (bits > 8 * filter.item) throw failure("has codes of {} bits for elements of {} bytes", bits, filter.item);
    const std::size_t elements = into.size() / filter.item;
    if (elements * filter.item != into.size() || (std::uint64_t{elements} * bits + 7) / 8 > codes.size())
        throw failure("has {} bytes for {} codes of {} bits", codes.size(), elements, bits);
    if (bits == 8 * filter.item) {
        std::memcpy(into.data(), codes.data(), into.size());
    } else {
        Codes reader{codes, bits};
        const std::uint64_t fill_code = (std::uint64_t{1} << bits) - 1;
        for (std::size_t k = 0; k < elements; ++k) {
            const std::uint64_t code = reader.next();
            const std::uint64_t value =
                filter.fill && code == fill_code ? *filter.fill : value_of(filter, code, minimum);
            std::memcpy(into.data() + k * filter.item, &value, filter.item);
        }
    }
    if (filter.is_big_endian) swap_bytes(into, filter.item);
}

}  // namespace tpx
