// SPDX-License-Identifier: Apache-2.0
#include "formats/driver.hpp"
#include "formats/encodings/new_objects.hpp"
#include "formats/encodings/torch/archive_writer.hpp"
#include "formats/encodings/torch/value.hpp"
#include "formats/megatron/adam_state.hpp"
#include "formats/megatron/bucket_common.hpp"
#include "formats/megatron/dist_checkpointing.hpp"
#include "formats/megatron/new_objects.hpp"
#include "formats/megatron/rank_optimizer.hpp"
#include "formats/megatron/rank_state.hpp"
#include "formats/megatron/tracker.hpp"
#include "formats/state/common_state.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <string>
#include <vector>
#include "formats/encodings/torch/without_keys.hpp"

namespace tpx::formats::megatron {
namespace {

using torch::Document;
using torch::Value;

/// The source's common state, or the minimum that Megatron needs, with `content.args` set.
Value common_state(Document& document, const Content& content, std::int64_t iteration) {
    Value common = document.dict();
    if (content.source != nullptr && content.source->common)
        common = *content.source->common;
    else
        common =
            document.with_key(document.with_key(common, "args", Value{}), "checkpoint_version", document.real(3.0));
    common = with_args(document, common, content.args, iteration);
    const bool two = two_optimizers(args_of(common), content.layout);
    return with_adam(document, common, content, two);
}

bool is_vector_of_experts(std::string_view name) {
    return name.find(".mlp.experts.") != name.npos && name.ends_with(".bias");
}

/// `common` with the entries that Megatron needs in addition to an optimizer's tensors: without them, it would silently
/// ignore the moments of a distributed optimizer. State that is still in buckets has its own entries.
Value with_sharding(Document& document, Value common, const Content& content) {
    const auto any = [&](std::string_view prefix) {
        return std::ranges::any_of(content.tensors,
                                   [&](const Tensor& tensor) { return tensor.name.starts_with(prefix); });
    };
    if (content.source != nullptr && stores_megatron_tensors(*content.source->format) && !any("optimizer.state."))
        return common;
    const bool vectors =
        std::ranges::any_of(content.tensors, [](const Tensor& tensor) { return is_vector_of_experts(tensor.name); });
    const bool two = two_optimizers(args_of(common), content.layout);
    common = with_optimizers(document, common, two, vectors);
    const bool distributed = any("optimizer.state.param.");
    common = with_masters(document, common, distributed || any("optimizer.state.fp32_param."));
    return with_sharding_type(document, common, distributed);
}

}  // namespace

std::int64_t new_iteration(const Content& content) {
    const std::int64_t step = content.adam ? content.adam->step : 0;
    const std::int64_t known = content.source != nullptr ? content.source->iteration.value_or(step) : 0;
    return std::max<std::int64_t>(known, 1);
}

std::filesystem::path new_folder(const Content& content) { return fmt::format("iter_{:07}", new_iteration(content)); }

void add_common_files(Draft& draft, const Content& content, std::string_view backend) {
    const Checkpoint* source = content.source;
    const bool same_kind = source != nullptr && stores_megatron_tensors(*source->format);
    const std::int64_t iteration = new_iteration(content);
    Document document;
    Value common = common_state(document, content, iteration);
    if (!same_kind || !same_ranks(source_layout(*source), content.layout))
        common = torch::without_keys(document, common, {"rerun_state_machine"});
    if (content.adam || (source != nullptr && (same_kind || source->common)))
        common = with_sharding(document, common, content);
    const torch::Contents none;
    const torch::Contents& storages = source != nullptr ? source->common_storages : none;
    const std::filesystem::path folder = new_folder(content);
    add_file(draft, folder / "common.pt", torch::frame_archive(common, {}, storages).runs.at(0));
    add_file(draft, folder / "metadata.json",
             fmt::format(R"({{"sharded_backend": "{}", "sharded_backend_version": 1, "common_backend": "torch", )"
                         R"("common_backend_version": 1}})",
                         backend));
    add_file(draft, tracker_name, std::to_string(iteration));
}

}  // namespace tpx::formats::megatron
