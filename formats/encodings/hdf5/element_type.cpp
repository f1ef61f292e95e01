// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/hdf5/element_type.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>

namespace tpx::formats::hdf5 {
namespace {

/// A floating-point type described by its fields: the bits of the exponent and of the mantissa, and the exponent's
/// bias.
struct Real {
    DType dtype;
    std::size_t size;
    std::size_t exponent;
    std::size_t mantissa;
    std::size_t bias;
};
constexpr std::array<Real, 6> reals{{{DType::f64, 8, 11, 52, 1023},
                                     {DType::f32, 4, 8, 23, 127},
                                     {DType::f16, 2, 5, 10, 15},
                                     {DType::bf16, 2, 8, 7, 127},
                                     {DType::f8_e4m3, 1, 4, 3, 7},
                                     {DType::f8_e5m2, 1, 5, 2, 15}}};

std::optional<DType> real_type(hid_t type) {
    std::size_t sign = 0, exponent_at = 0, exponent = 0, mantissa_at = 0, mantissa = 0;
    if (H5Tget_fields(type, &sign, &exponent_at, &exponent, &mantissa_at, &mantissa) < 0) return std::nullopt;
    const std::size_t size = H5Tget_size(type);
    for (const Real& real : reals) {
        const bool same = size == real.size && exponent == real.exponent && mantissa == real.mantissa &&
                          H5Tget_ebias(type) == real.bias && mantissa_at == 0 && exponent_at == mantissa &&
                          sign == mantissa + exponent && H5Tget_norm(type) == H5T_NORM_IMPLIED &&
                          H5Tget_precision(type) == 8 * size;
        if (same) return real.dtype;
    }
    return std::nullopt;
}

std::optional<DType> whole_type(std::size_t size, bool is_signed) {
    switch (size) {
        case 1:
            return is_signed ? DType::i8 : DType::u8;
        case 2:
            return is_signed ? DType::i16 : DType::u16;
        case 4:
            return is_signed ? DType::i32 : DType::u32;
        case 8:
            return is_signed ? DType::i64 : DType::u64;
        default:
            return std::nullopt;
    }
}

std::optional<DType> integer_type(hid_t type) {
    if (H5Tget_precision(type) != 8 * H5Tget_size(type)) return std::nullopt;
    return whole_type(H5Tget_size(type), H5Tget_sign(type) == H5T_SGN_2);
}

/// The name of member `k` of an enumeration or a compound.
std::string member_name(hid_t type, unsigned k) {
    char* name = H5Tget_member_name(type, k);
    std::string text = name == nullptr ? "" : name;
    H5free_memory(name);
    return text;
}

/// Whether `type` is what h5py stores for numpy's bool: an enumeration of FALSE = 0 and TRUE = 1 in one byte.
bool is_boolean(hid_t type) {
    if (H5Tget_size(type) != 1 || H5Tget_nmembers(type) != 2) return false;
    for (unsigned k = 0; k < 2; ++k) {
        const std::string name = member_name(type, k);
        std::uint8_t value = 0;
        if (H5Tget_member_value(type, k, &value) < 0) return false;
        if (name != (value == 0 ? "FALSE" : "TRUE") || value > 1) return false;
    }
    return true;
}

void describe_enumeration(hid_t type, DatasetFacts& facts) {
    const Type base{H5Tget_super(type)};
    facts.swapped = H5Tget_order(base.get()) == H5T_ORDER_BE;
    facts.dtype = is_boolean(type) ? DType::boolean : integer_type(base.get());
}

/// Describes a compound. It is a complex number if it is stored as h5py does: two reals of one type, one after the
/// other.
void describe_compound(hid_t type, DatasetFacts& facts) {
    facts.kind = "a compound";
    if (H5Tget_nmembers(type) != 2 || member_name(type, 0) != "r" || member_name(type, 1) != "i") return;
    const Type real{H5Tget_member_type(type, 0)}, imaginary{H5Tget_member_type(type, 1)};
    if (H5Tget_class(real.get()) != H5T_FLOAT || H5Tequal(real.get(), imaginary.get()) <= 0) return;
    const std::size_t size = H5Tget_size(real.get());
    if (H5Tget_size(type) != 2 * size || H5Tget_member_offset(type, 0) != 0 || H5Tget_member_offset(type, 1) != size)
        return;
    const auto part = real_type(real.get());
    if (part == DType::f64) facts.dtype = DType::c128;
    if (part == DType::f32) facts.dtype = DType::c64;
    if (part == DType::f16) facts.dtype = DType::c32;
    if (!facts.dtype) return;
    facts.kind.clear();
    facts.part = static_cast<std::uint32_t>(size);
    facts.swapped = H5Tget_order(real.get()) == H5T_ORDER_BE;
}

void describe_opaque(std::size_t size, DatasetFacts& facts) {
    facts.is_ambiguous = true;
    // Keras stores bfloat16 as opaque bytes and does not always name the dtype in an attribute.
    if (size == 2)
        facts.dtype = DType::bf16;
    else if (size == 1)
        facts.dtype = DType::u8;
    else
        facts.kind = fmt::format("opaque, {} bytes an element", size);
}

void describe_array(hid_t type, DatasetFacts& facts) {
    const Type base{H5Tget_super(type)};
    const int axes = H5Tget_array_ndims(type);
    std::vector<hsize_t> sizes(axes < 0 ? 0 : static_cast<std::size_t>(axes));
    if (axes < 0 || H5Tget_array_dims2(type, sizes.data()) < 0) {
        facts.refusal = "an array type that HDF5 cannot read";
        return;
    }
    facts.shape.insert(facts.shape.end(), sizes.begin(), sizes.end());
    describe_type(base.get(), facts);
}

}  // namespace

void describe_type(hid_t type, DatasetFacts& facts) {
    const std::size_t size = H5Tget_size(type);
    facts.item = facts.part = static_cast<std::uint32_t>(size);
    facts.swapped = H5Tget_order(type) == H5T_ORDER_BE;
    switch (H5Tget_class(type)) {
        case H5T_INTEGER:
            facts.dtype = integer_type(type);
            facts.is_ambiguous = true;
            break;
        case H5T_FLOAT:
            facts.dtype = real_type(type);
            break;
        case H5T_BITFIELD:
            facts.dtype = whole_type(size, false);
            facts.is_ambiguous = true;
            break;
        case H5T_ENUM:
            return describe_enumeration(type, facts);
        case H5T_COMPOUND:
            return describe_compound(type, facts);
        case H5T_OPAQUE:
            facts.swapped = false;
            return describe_opaque(size, facts);
        case H5T_ARRAY:
            return describe_array(type, facts);
        case H5T_STRING:
            facts.kind = "text";
            return;
        case H5T_REFERENCE:
            facts.kind = "references";
            return;
        case H5T_VLEN:
            facts.kind = "variable-length lists";
            return;
        default:
            facts.kind = "not numeric";
            return;
    }
    if (H5Tget_order(type) != H5T_ORDER_LE && H5Tget_order(type) != H5T_ORDER_BE && size > 1)
        facts.dtype = std::nullopt;
    if (!facts.dtype)
        facts.refusal =
            fmt::format("a number of {} bits in {} bytes, which no framework uses", H5Tget_precision(type), size);
}

}  // namespace tpx::formats::hdf5
