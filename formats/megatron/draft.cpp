// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/draft.hpp"
#include "formats/megatron/torch_dist.hpp"
#include "formats/torch/archive_writer.hpp"
#include "formats/torch/value.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <string>
#include <type_traits>

namespace tpx::formats {
namespace {

using torch::Document;
using torch::Kind;
using torch::Value;

constexpr std::string_view backends =
    R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch", )"
    R"("common_backend_version": 1})";

Value value_of(Document& document, const ConfigValue& value) {
    return std::visit(
        [&](const auto& held) {
            using Held = std::decay_t<decltype(held)>;
            if constexpr (std::is_same_v<Held, std::nullptr_t>)
                return Value{};
            else if constexpr (std::is_same_v<Held, bool>)
                return Value::boolean(held);
            else if constexpr (std::is_same_v<Held, std::int64_t>)
                return document.integer(held);
            else if constexpr (std::is_same_v<Held, double>)
                return document.real(held);
            else
                return document.string(held);
        },
        value);
}

Value empty_args(Document& document) {
    const Value args =
        document.object(document.global("argparse", "Namespace"), document.tuple({}), torch::Construction::allocate);
    document.set_state(args, document.dict());
    return args;
}

/// The source's common state with `content.args` set, or the least that Megatron reads.
Value common_state(Document& document, const Content& content, std::int64_t iteration) {
    Value common = document.dict();
    if (content.source != nullptr && content.source->common)
        common = *content.source->common;
    else
        common = document.with_key(document.with_key(common, "args", empty_args(document)), "checkpoint_version",
                                   document.real(3.0));
    Value args = common.find("args").value_or(Value{});
    if (args.is_none()) args = empty_args(document);
    for (const auto& [name, value] : content.args)
        args = document.with_attribute(args, name, value_of(document, value));
    common = document.with_key(common, "args", args);
    return document.with_key(common, "iteration", document.integer(iteration));
}

}  // namespace

Draft draft_torch_dist(const Content& content) {
    const bool megatron = content.source != nullptr && content.source->format == Format::torch_dist;
    const std::int64_t known = content.source != nullptr ? content.source->iteration.value_or(0) : 0;
    const std::int64_t iteration = std::max<std::int64_t>(known, 1);
    const std::filesystem::path folder = fmt::format("iter_{:07}", iteration);
    Draft draft = draft_chunks(content, folder, false, megatron);
    Document document;
    add_file(draft, folder / "common.pt", torch::write_archive(common_state(document, content, iteration)));
    add_file(draft, folder / "metadata.json", std::string{backends});
    add_file(draft, "latest_checkpointed_iteration.txt", std::to_string(iteration));
    return draft;
}

}  // namespace tpx::formats
