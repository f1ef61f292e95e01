// SPDX-License-Identifier: Apache-2.0
#include "formats/quantized/namings.hpp"

#include "formats/quantized/quantized_shapes.hpp"

namespace tpx::formats {

bool may_be_codes(const QuantizedNaming& naming, DType dtype) {
    if (naming.codes == mxfp4.codes) return dtype == DType::u8;
    if (naming.codes == packed_words.codes) return dtype == DType::i32;
    if (naming.codes == packed.codes) return dtype == DType::i32 || dtype == DType::u8;
    return is_fp8(dtype) || (naming.scales == plain_scales.scales && dtype == DType::u8) ||
           (naming.scales == plain_scales.scales && dtype == DType::i8);
}

}  // namespace tpx::formats
