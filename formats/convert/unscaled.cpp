// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/unscaled.hpp"

#include "formats/driver.hpp"
#include "formats/quantized/quantized.hpp"
#include "formats/quantized/quantized_shapes.hpp"
#include "lib/core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
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
bool needs_scale(const Source& source, const Target& target, std::size_t t) {
    const DType dtype = source.checkpoint.catalogue.tensors[t].dtype;
    const Meaning& meaning = source.reading.meanings[t];
    if (target.unscaled && is_fp8(dtype) && meaning.role == Role::weight && meaning.kind != Meaning::Kind::extra)
        return false;
    const bool number = meaning.kind == Meaning::Kind::parameter && meaning.role != Role::step &&
                        !source.reading.family->tensor(meaning.rule->expression.parts[0]).buffer;
    return is_narrow_float(dtype) || (number && !is_real(dtype) && !is_complex(dtype));
}

/// The module and the last part of a tensor's name.
std::pair<std::string_view, std::string_view> split_name(std::string_view name) {
    const std::size_t dot = name.rfind('.');
    return dot == name.npos ? std::pair{std::string_view{}, name}
                            : std::pair{name.substr(0, dot), name.substr(dot + 1)};
}

/// Throws Error if the module of a weight in FP8 has another tensor whose name contains "scale".
void check_no_scales(std::span<const Tensor> tensors) {
    std::map<std::string_view, std::string_view> weights;  // in FP8, by module
    for (const Tensor& tensor : tensors)
        if (is_fp8(tensor.dtype)) weights.emplace(split_name(tensor.name).first, tensor.name);
    for (const Tensor& tensor : tensors) {
        const auto [module, last] = split_name(tensor.name);
        const auto weight = weights.find(module);
        if (weight != weights.end() && !is_fp8(tensor.dtype) && last.find("scale") != last.npos)
            throw Error{Exit::usage,
                        "--dtype: 'unscaled': tensor '{}' seems to be the scale of '{}'; dequantize the model first",
                        tensor.name, weight->second};
    }
}

/// What else can be done with weights whose scales are unknown.
std::string advice_for(const Target& target) {
    if (target.unscaled) return "";
    if (target.dtype)
        return fmt::format(", or pass --dtype {}:unscaled if FP8 weights have no scales", name(*target.dtype));
    return target.format->has_args ? "" : ", or copy it with --dialect keep";
}

}  // namespace

void check_plain_casts(const Source& source, const Target& target) {
    if (!target.dtype) return;
    const std::string_view dtype = name(*target.dtype);
    if (is_fp8(*target.dtype) && !target.unscaled)
        throw Error{Exit::usage, "--dtype {0}: use {0}:unscaled to cast values to FP8 without scales", dtype};
    if (!target.unscaled) return;
    if (is_quantized(source.checkpoint))
        throw Error{
            Exit::usage,
            "--dtype {}:unscaled: the weights are quantized and have scales; dequantize them first with --dtype bf16",
            dtype};
    const auto& tensors = source.checkpoint.catalogue.tensors;
    check_no_scales(tensors);
    const auto is_state = [](const Meaning& meaning) {
        return meaning.role != Role::weight && meaning.kind != Meaning::Kind::extra;
    };
    const auto state = std::ranges::find_if(source.reading.meanings, is_state);
    if (is_fp8(*target.dtype) && state != source.reading.meanings.end())
        throw Error{Exit::usage,
                    "--dtype {}:unscaled: tensor '{}' is optimizer state, which cannot continue from weights in FP8; "
                    "pass --drop optimizer to write weights only",
                    dtype, tensors[static_cast<std::size_t>(state - source.reading.meanings.begin())].name};
}

void check_unscaled(const Source& source, const Target& target, const Dialect* dialect) {
    if (dialect == nullptr && !target.dtype) return;
    const std::vector<Tensor>& tensors = source.checkpoint.catalogue.tensors;
    std::vector<const Tensor*> unscaled;
    for (std::size_t t = 0; t < tensors.size(); ++t)
        if (needs_scale(source, target, t)) unscaled.push_back(&tensors[t]);
    if (unscaled.empty()) return;
    const std::size_t more = unscaled.size() - 1;
    const std::string others = more > 0 ? fmt::format(" and {} other tensor{}", more, more == 1 ? "" : "s") : "";
    throw failure(
        "tensor '{}'{}: quantized weights ({}) cannot be converted to {}, because their scales are unknown; dequantize "
        "the model first (transformers: model.dequantize()){}",
        unscaled[0]->name, others, name(unscaled[0]->dtype),
        dialect ? fmt::format("{} names", dialect->name) : name(*target.dtype), advice_for(target));
}

}  // namespace tpx::formats
