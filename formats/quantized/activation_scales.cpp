// SPDX-License-Identifier: Apache-2.0
#include "formats/quantized/activation_scales.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace tpx::formats {

std::vector<std::uint32_t> activation_scales(const Checkpoint& checkpoint) {
    constexpr std::array<std::string_view, 8> endings{
        ".input_scale", ".activation_scale", ".output_scale",       ".k_scale",
        ".v_scale",     ".q_scale",          ".input_global_scale", ".input_zero_point"};
    std::vector<std::uint32_t> numbers;
    const auto& tensors = checkpoint.catalogue.tensors;
    for (std::uint32_t t = 0; t < tensors.size(); ++t)
        if (std::ranges::any_of(endings, [&](std::string_view ending) { return tensors[t].name.ends_with(ending); }))
            numbers.push_back(t);
    return numbers;
}

}  // namespace tpx::formats
