// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/unscaled.hpp"

#include "formats/driver.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/error.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace tpx::formats {
namespace {

/// Floating-point types that no framework trains in.
bool is_narrow_float(DType dtype) {
    switch (dtype) {
        case DType::f8_e5m2:
        case DType::f8_e4m3:
        case DType::f8_e8m0:
        case DType::f8_e4m3fnuz:
        case DType::f8_e5m2fnuz:
        case DType::f4:
        case DType::f6_e2m3:
        case DType::f6_e3m2:
        case DType::f4_x2:
            return true;
        default:
            return false;
    }
}

/// Whether the elements of tensor `t` need a scale: its type is for scaled numbers only, or it is a known parameter or
/// moment, not a buffer, and of integer type.
bool needs_scale(const Source& source, std::size_t t) {
    const DType dtype = source.checkpoint.catalogue.tensors[t].dtype;
    const Meaning& meaning = source.reading.meanings[t];
    const bool number = meaning.kind == Meaning::Kind::parameter && meaning.role != Role::step &&
                        !source.reading.family->tensor(meaning.rule->expression.parts[0]).buffer;
    return is_narrow_float(dtype) || (number && !is_real(dtype) && !is_complex(dtype));
}

}  // namespace

void check_unscaled(const Source& source, const Target& target, const Dialect* dialect) {
    if (dialect == nullptr && !target.dtype) return;
    const std::vector<Tensor>& tensors = source.checkpoint.catalogue.tensors;
    std::vector<const Tensor*> unscaled;
    for (std::size_t t = 0; t < tensors.size(); ++t)
        if (needs_scale(source, t)) unscaled.push_back(&tensors[t]);
    if (unscaled.empty()) return;
    const std::size_t more = unscaled.size() - 1;
    const std::string others = more > 0 ? fmt::format(" and {} other tensor{}", more, more == 1 ? "" : "s") : "";
    throw failure(
        "tensor '{}'{}: quantized weights ({}) cannot be converted to {}, because their scales are unknown; dequantize "
        "the model first (transformers: model.dequantize()){}",
        unscaled[0]->name, others, name(unscaled[0]->dtype),
        dialect ? fmt::format("{} names", dialect->name) : name(*target.dtype),
        target.dtype || target.format->has_args ? "" : ", or copy it with --dialect keep");
}

}  // namespace tpx::formats
