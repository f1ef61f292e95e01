// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/draft.hpp"
#include "formats/encodings/torch/archive_writer.hpp"
#include "formats/encodings/torch/value.hpp"
#include "formats/megatron/adam_state.hpp"
#include "formats/megatron/bucket_common.hpp"
#include "formats/megatron/driver.hpp"
#include "formats/megatron/new_objects.hpp"
#include "formats/megatron/rank_optimizer.hpp"
#include "formats/megatron/rank_state.hpp"
#include "formats/megatron/torch_dist.hpp"
#include "formats/state/common_state.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace tpx::formats {
namespace {

using torch::Document;
using torch::Value;

constexpr std::string_view backends =
    R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch", )"
    R"("common_backend_version": 1})";

/// The source's common state with `content.args` set, or the least that Megatron reads.
Value common_state(Document& document, const Content& content, std::int64_t iteration) {
    Value common = document.dict();
    if (content.source != nullptr && content.source->common)
        common = *content.source->common;
    else
        common =
            document.with_key(document.with_key(common, "args", Value{}), "checkpoint_version", document.real(3.0));
    common = with_args(document, common, content.args, iteration);
    const bool two = megatron::two_optimizers(args_of(common), content.layout);
    return megatron::with_adam(document, common, content, two);
}

bool is_vector_of_experts(std::string_view name) {
    return name.find(".mlp.experts.") != name.npos && name.ends_with(".bias");
}

/// What Megatron asks a common state beside the tensors of an optimizer: without it, moments of the distributed
/// optimizer would be passed over silently. What is in buckets still has its own.
Value with_sharding(Document& document, Value common, const Content& content) {
    const auto any = [&](std::string_view prefix) {
        return std::ranges::any_of(content.tensors,
                                   [&](const Tensor& tensor) { return tensor.name.starts_with(prefix); });
    };
    if (content.source->format == &torch_dist_driver && !any("optimizer.state.")) return common;
    const bool vectors =
        std::ranges::any_of(content.tensors, [](const Tensor& tensor) { return is_vector_of_experts(tensor.name); });
    const bool two = megatron::two_optimizers(args_of(common), content.layout);
    common = megatron::with_optimizers(document, common, two, vectors);
    const bool distributed = any("optimizer.state.param.");
    common = megatron::with_masters(document, common, distributed || any("optimizer.state.fp32_param."));
    return megatron::with_sharding_type(document, common, distributed);
}

}  // namespace

Draft draft_torch_dist(const Content& content) {
    const bool same_format = content.source != nullptr && content.source->format == &torch_dist_driver;
    const std::int64_t step = content.adam ? content.adam->step : 0;
    const std::int64_t known = content.source != nullptr ? content.source->iteration.value_or(step) : 0;
    const std::int64_t iteration = std::max<std::int64_t>(known, 1);
    const std::filesystem::path folder = fmt::format("iter_{:07}", iteration);
    Draft draft = draft_chunks(content, folder, false, megatron::new_objects(content));
    Document document;
    Value common = common_state(document, content, iteration);
    if (!same_format || !megatron::same_ranks(megatron::source_layout(*content.source), content.layout))
        common = without_keys(document, common, {"rerun_state_machine"});
    if (content.adam || (content.source != nullptr && (same_format || content.source->common)))
        common = with_sharding(document, common, content);
    const torch::Contents none;
    const torch::Contents& storages = content.source != nullptr ? content.source->common_storages : none;
    add_file(draft, folder / "common.pt", torch::frame_archive(common, {}, storages).runs.at(0));
    add_file(draft, folder / "metadata.json", std::string{backends});
    add_file(draft, "latest_checkpointed_iteration.txt", std::to_string(iteration));
    return draft;
}

}  // namespace tpx::formats
