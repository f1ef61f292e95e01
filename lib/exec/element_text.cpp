// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/copy_elements.hpp"
#include "lib/exec/difference.hpp"

#include <cstring>

namespace tpx {
namespace {

template <class Number>
std::string number_text(const std::byte* element) {
    Number number;
    std::memcpy(&number, element, sizeof number);
    return fmt::format("{}", number);
}

std::string hexadecimal(const std::byte* element, int size) {
    std::string text = "0x";
    for (int k = size - 1; k >= 0; --k) text += fmt::format("{:02x}", static_cast<unsigned>(element[k]));
    return text;
}

}  // namespace

std::string element_text(DType dtype, const std::byte* element) {
    switch (dtype) {
        case DType::boolean:
            return *element == std::byte{0} ? "false" : "true";
        case DType::u8:
            return number_text<std::uint8_t>(element);
        case DType::i8:
            return number_text<std::int8_t>(element);
        case DType::u16:
            return number_text<std::uint16_t>(element);
        case DType::i16:
            return number_text<std::int16_t>(element);
        case DType::u32:
            return number_text<std::uint32_t>(element);
        case DType::i32:
            return number_text<std::int32_t>(element);
        case DType::u64:
            return number_text<std::uint64_t>(element);
        case DType::i64:
            return number_text<std::int64_t>(element);
        case DType::f32:
            return number_text<float>(element);
        case DType::f64:
            return number_text<double>(element);
        case DType::f16:
        case DType::bf16:
        case DType::f8_e4m3:
        case DType::f8_e5m2: {
            float value = 0;
            cast_elements({}, element, {}, dtype, reinterpret_cast<std::byte*>(&value), {}, DType::f32);
            return fmt::format("{}", value);
        }
        default:
            return hexadecimal(element, itemsize(dtype));
    }
}

}  // namespace tpx
