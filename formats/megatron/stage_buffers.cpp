// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/stage_buffers.hpp"

#include "formats/megatron/plain_optimizer.hpp"
#include "formats/megatron/rank_optimizer.hpp"

#include <algorithm>
#include <string_view>

namespace tpx::formats::megatron {
namespace {

/// Whether `parameter` is also in `all` under its second name.
bool has_second_name(const RankParameter& parameter, const std::vector<RankParameter>& all) {
    const std::string_view second = second_name(parameter.name);
    return !second.empty() && std::ranges::any_of(all, [&](const RankParameter& other) {
        return other.name == second && other.chunk == parameter.chunk;
    });
}

}  // namespace

std::vector<const RankParameter*> trained_parameters(const std::vector<RankParameter>& all, bool split, bool experts) {
    std::vector<const RankParameter*> found;
    for (const RankParameter& parameter : all) {
        if (is_buffer(parameter.name) || has_second_name(parameter, all)) continue;
        if (split && is_of_experts(parameter.name) != experts) continue;
        found.push_back(&parameter);
    }
    return found;
}

std::vector<Buffer> buffers_of(const std::vector<RankParameter>& all, bool split, bool experts) {
    std::vector<Buffer> buffers;
    for (const RankParameter* parameter : trained_parameters(all, split, experts)) {
        const auto buffer = std::ranges::find_if(buffers, [&](const Buffer& list) {
            return list[0]->chunk == parameter->chunk &&
                   list[0]->dtypes.at(Role::weight) == parameter->dtypes.at(Role::weight);
        });
        buffer == buffers.end() ? buffers.push_back({parameter}) : buffer->push_back(parameter);
    }
    return buffers;
}

BufferLayout places_of(const Buffer& buffer, const Config& args, const Layout& layout, int stage, bool experts) {
    std::vector<BufferParameter> laid;
    for (const RankParameter* parameter : buffer)
        laid.push_back({volume(parameter->shape), is_shared_embedding(args, layout, parameter->name)});
    return lay_out_buffer(laid, bucket_size(args, layout, stage, buffer[0]->chunk), sharing_ranks(layout, experts));
}

}  // namespace tpx::formats::megatron
