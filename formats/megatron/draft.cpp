// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/draft.hpp"
#include "formats/megatron/common_state.hpp"
#include "formats/megatron/torch_dist.hpp"
#include "formats/torch/archive_writer.hpp"
#include "formats/torch/value.hpp"
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
    return megatron::with_args(document, common, content.args, iteration);
}

/// What Megatron asks a common state beside the tensors of an optimizer from rank files: without it, moments of the
/// distributed optimizer would be passed over silently.
Value with_sharding(Document& document, Value common, const Content& content) {
    Value metadata = document.with_key(document.dict(), "singleton_local_shards", Value::boolean(false));
    metadata = document.with_key(metadata, "chained_optim_avoid_prefix", Value::boolean(true));
    const bool distributed = std::ranges::any_of(
        content.tensors, [](const Tensor& tensor) { return tensor.name.starts_with("optimizer.state.param."); });
    if (!distributed) return document.with_key(common, "content_metadata", metadata);
    const Value type = document.string("fully_reshardable");
    metadata = document.with_key(metadata, "distrib_optim_sharding_type", type);
    metadata = document.with_key(metadata, "distrib_optim_fully_reshardable_mem_efficient", Value::boolean(false));
    common = document.with_key(common, "content_metadata", metadata);
    const auto optimizer = common.find("optimizer");
    if (!optimizer || !optimizer->is(torch::Kind::dict)) return common;
    if (optimizer->find("optimizer"))
        return document.with_key(common, "optimizer", document.with_key(*optimizer, "param_state_sharding_type", type));
    std::vector<torch::Entry> both;
    for (const torch::Entry& entry : optimizer->entries())
        both.push_back({entry.key, document.with_key(entry.value, "param_state_sharding_type", type)});
    return document.with_key(common, "optimizer", document.dict(both));
}

}  // namespace

Draft draft_torch_dist(const Content& content) {
    const bool megatron = content.source != nullptr && content.source->format == Format::torch_dist;
    const std::int64_t known = content.source != nullptr ? content.source->iteration.value_or(0) : 0;
    const std::int64_t iteration = std::max<std::int64_t>(known, 1);
    const std::filesystem::path folder = fmt::format("iter_{:07}", iteration);
    Draft draft = draft_chunks(content, folder, false, megatron);
    Document document;
    Value common = common_state(document, content, iteration);
    if (content.source != nullptr && content.source->format == Format::megatron)
        common = with_sharding(document, common, content);
    add_file(draft, folder / "common.pt", torch::write_archive(common));
    add_file(draft, folder / "metadata.json", std::string{backends});
    add_file(draft, "latest_checkpointed_iteration.txt", std::to_string(iteration));
    return draft;
}

}  // namespace tpx::formats
