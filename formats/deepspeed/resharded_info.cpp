// SPDX-License-Identifier: Apache-2.0
#include "formats/deepspeed/resharded_info.hpp"

#include "formats/encodings/torch/without_keys.hpp"

#include <vector>

namespace tpx::formats::deepspeed {
namespace {

constexpr const char* shard_widths = "sub_param_shard_widths";

/// For each pattern, the width of each sub-parameter in one rank: the sum of its widths.
torch::Value joined_widths(torch::Document& document, torch::Value widths) {
    std::vector<torch::Entry> joined;
    for (const auto& [pattern, of_pattern] : widths.entries()) {
        std::vector<torch::Value> lists;
        for (const torch::Value of_ranks : of_pattern.items()) {
            std::int64_t sum = 0;
            for (const torch::Value width : of_ranks.items()) sum += width.as_int();
            const torch::Value one = document.integer(sum);
            lists.push_back(document.list({&one, 1}));
        }
        joined.push_back({pattern, document.list(lists)});
    }
    return document.dict(joined);
}

}  // namespace

torch::Value info_for_ranks(torch::Document& document, torch::Value info, int ranks) {
    if (info.find("affine_map"))
        info = torch::without_keys(document, info, {"affine_map", "vocabulary_parameter_patterns"});
    const auto widths = info.find(shard_widths);
    if (ranks == 1 && widths && widths->is(torch::Kind::dict))
        info = document.with_key(info, shard_widths, joined_widths(document, *widths));
    return info;
}

}  // namespace tpx::formats::deepspeed
