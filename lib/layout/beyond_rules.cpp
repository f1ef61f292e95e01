// SPDX-License-Identifier: Apache-2.0
#include "lib/layout/beyond_rules.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace tpx {
namespace {

bool is_of_adapter(std::string_view name) {
    constexpr std::array<std::string_view, 4> signs{".lora_A.", ".lora_B.", ".lora_embedding_", ".lora_magnitude_"};
    return std::ranges::any_of(signs, [&](std::string_view sign) { return name.find(sign) != name.npos; });
}

}  // namespace

bool is_quantized_weight_part(std::string_view name) {
    constexpr std::array<std::string_view, 20> endings{".qweight",
                                                       ".qzeros",
                                                       ".g_idx",
                                                       ".SCB",
                                                       ".weight.absmax",
                                                       ".weight_scale",
                                                       ".weight_scale_inv",
                                                       ".weight_scale_2",
                                                       ".weight_packed",
                                                       ".weight_shape",
                                                       ".input_scale",
                                                       "_proj_blocks",
                                                       "_proj_scales",
                                                       ".weight_zero_point",
                                                       ".weight_global_scale",
                                                       "._weight_qdata",
                                                       "._weight_scale",
                                                       "._weight_zero_point",
                                                       "._weight_scale_and_zero",
                                                       "._weight_per_tensor_scale"};
    return name.find(".weight.quant_state.") != name.npos ||
           std::ranges::any_of(endings, [&](std::string_view ending) { return name.ends_with(ending); });
}

std::string_view why_beyond_rules(std::string_view name) {
    if (name.find(".experts.") != name.npos && name.find(".adapter.") != name.npos)
        return "belongs to a LoRA adapter that experts of Megatron share, and PEFT has no such adapters; merge it into "
               "its "
               "base in Megatron Bridge";
    if (is_of_adapter(name))
        return "belongs to a LoRA adapter; merge the adapter into its base: tpx reshard BASE OUT --merge-adapter DIR";
    if (is_quantized_weight_part(name))
        return "belongs to quantized weights; dequantize the model first (transformers: model.dequantize())";
    return {};
}

std::vector<const Tensor*> outer_tensors(const Reading& reading, std::span<const Tensor> tensors) {
    std::vector<const Tensor*> found;
    if (!reading.family) return found;
    for (const std::uint32_t t : reading.unknown)
        if (reading.dialect->is_whole(tensors[t].name)) found.push_back(&tensors[t]);
    return found;
}

}  // namespace tpx
