// SPDX-License-Identifier: Apache-2.0
#include "cmd/reshard_job.hpp"

#include "cmd/stored_plan.hpp"
#include "formats/merge_adapter.hpp"
#include "formats/missing_biases.hpp"
#include "formats/selection.hpp"
#include "formats/zeros.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"
#include "lib/core/in_path.hpp"
#include "lib/core/unexpected.hpp"
#include "lib/exec/kernel.hpp"

#include <optional>
#include <utility>

namespace tpx::cli {
namespace {

/// Parses --dtype: names of tpx, of PyTorch, or fp64, fp32 and fp16. Throws Error (usage) for other names, and for
/// types that values cannot be cast to.
std::optional<DType> given_dtype(const std::string& text) {
    if (text.empty()) return std::nullopt;
    std::optional<DType> dtype = dtype_by_name(text);
    if (!dtype) dtype = dtype_by_torch(text);
    if (!dtype && text.starts_with("fp")) dtype = dtype_by_name("f" + text.substr(2));
    if (!dtype || !can_cast(*dtype, DType::f32))
        throw Error{Exit::usage,
                    "--dtype: '{}' is none of f64, f32, f16 and bf16 (also fp64, fp32, fp16, float64, float32, "
                    "float16, bfloat16)",
                    text};
    return dtype;
}

void plan_job(ReshardJob& job, bool allow_missing) {
    formats::Source& source = job.opened.source;
    if (allow_missing) {
        formats::add_missing_biases(source, job.target);
        job.zeros = formats::fill_holes(source.checkpoint);
    } else
        check_whole(source.checkpoint.catalogue);
    job.conversion = convert(source, job.target);
    job.moves = make_moves(job.conversion.source_side(), job.conversion.target_side());
}

/// Runs `body`; whatever exception leaves it names the file at `path`.
template <class Body>
void with_path(const std::filesystem::path& path, Body&& body) {
    reading(path, [&] { in_path(path.string(), std::forward<Body>(body)); });
}

/// The job that a plan file describes, with the moves that it holds.
ReshardJob prepare_planned(const ReshardOptions& options) {
    formats::PlanFile plan = read_plan_to_run(options.plan);
    formats::FileChange& change = *plan.checkpoint;
    ReshardJob job{.opened = open_checkpoint(options.checkpoint, options, change.settings.config)};
    check_source(change, options.plan, job.opened.source);
    in_context([&] { return options.plan; }, [&] { job.target = target_of(plan); });
    with_path(options.checkpoint, [&] {
        check_whole(job.opened.source.checkpoint.catalogue);
        job.conversion = convert(job.opened.source, job.target);
    });
    check_conversion(change, options.plan, job.conversion, job.opened.source);
    job.moves = std::move(change.moves);
    return job;
}

}  // namespace

ReshardJob prepare(const ReshardOptions& options) {
    if (!options.plan.empty()) return prepare_planned(options);
    ReshardJob job{.opened = open_checkpoint(options.checkpoint, options)};
    formats::Source& source = job.opened.source;
    if (options.masters && options.drop.empty()) throw Error{Exit::usage, "--masters: requires --drop optimizer"};
    const formats::Dropped dropped =
        options.drop.empty() ? formats::Dropped{} : formats::keep_weights(source, options.masters);
    std::string merged;
    if (!options.merge_adapter.empty())
        merged = reading(options.merge_adapter, [&] { return formats::merge_adapter(source, options.merge_adapter); });
    job.target = given_target(options, options, source);
    job.target.shard_size = options.shard_size;
    job.target.dtype = given_dtype(options.dtype);
    with_path(options.checkpoint, [&] { plan_job(job, options.allow_missing); });
    if (!merged.empty()) job.conversion.notes.push_back(std::move(merged));
    if (dropped.states > 0)
        job.conversion.notes.push_back(
            fmt::format("dropped, as requested: {} of optimizer state", counted(dropped.states, "tensor")));
    if (!dropped.files.empty())
        job.conversion.notes.push_back(fmt::format("dropped, as requested: {} ({} in all)", dropped.files[0].string(),
                                                   counted(dropped.files.size(), "file")));
    if (!dropped.others.empty())
        job.conversion.notes.push_back(fmt::format(
            "dropped {} that belong neither to weights nor to optimizer state ('{}'{})",
            counted(dropped.others.size(), "tensor"), dropped.others[0], dropped.others.size() > 1 ? ", ..." : ""));
    return job;
}

}  // namespace tpx::cli
