// SPDX-License-Identifier: Apache-2.0
#include "cmd/jobs/reshard_job.hpp"

#include "cmd/jobs/stored_plan.hpp"
#include "formats/adapters/merge_adapter.hpp"
#include "formats/convert/keep_weights.hpp"
#include "formats/convert/missing_biases.hpp"
#include "formats/convert/missing_parts.hpp"
#include "formats/driver.hpp"
#include "formats/fill_holes.hpp"
#include "formats/quantized/quantize.hpp"
#include "formats/quantized/quantized_shapes.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"
#include "lib/core/in_path.hpp"
#include "lib/core/lower_case.hpp"
#include "lib/core/unexpected.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace tpx::cli {
namespace {

constexpr std::string_view unscaled_suffix = ":unscaled";

/// The value of --dtype in lower case, without "torch." and ":unscaled".
std::string base_dtype(const std::string& text) {
    std::string name = lower_case(text);
    if (name.starts_with("torch.")) name.erase(0, 6);
    if (name.ends_with(unscaled_suffix)) name.resize(name.size() - unscaled_suffix.size());
    return name;
}

bool is_unscaled(const std::string& text) { return lower_case(text).ends_with(unscaled_suffix); }

/// The FP8 type that a name of --dtype means, under any alias.
std::optional<DType> fp8_by_name(const std::string& name) {
    if (name == "f8e4m3" || name == "f8_e4m3" || name == "fp8" || name == "float8_e4m3fn") return DType::f8_e4m3;
    if (name == "f8e5m2" || name == "f8_e5m2" || name == "float8_e5m2") return DType::f8_e5m2;
    return std::nullopt;
}

/// Whether --dtype requests FP8 with block scales.
bool wants_fp8_blocks(const std::string& text) {
    if (is_unscaled(text)) return false;
    const std::string name = base_dtype(text), type = name.substr(0, name.find(':'));
    const auto fp8 = fp8_by_name(type);
    if (!fp8) return false;
    if (fp8 == DType::f8_e5m2)
        throw Error{Exit::usage, "--dtype {}: use {}{} to cast values to FP8 without scales", text, type,
                    unscaled_suffix};
    if (name != type + ":block128")
        throw Error{Exit::usage,
                    "--dtype {0}: FP8 needs one scale per 128x128 block; use {1}:block128, or {1}{2} to cast values "
                    "without scales",
                    text, type, unscaled_suffix};
    return true;
}

/// Parses --dtype: names of tpx, of PyTorch, or fp64, fp32 and fp16; with ":unscaled", also FP8. Throws Error (usage)
/// for other names, and for types that values cannot be cast to.
std::optional<DType> given_dtype(const std::string& text) {
    if (text.empty()) return std::nullopt;
    const std::string name = base_dtype(text);
    std::optional<DType> dtype = is_unscaled(text) ? fp8_by_name(name) : std::nullopt;
    if (!dtype) dtype = dtype_by_name(name);
    if (!dtype) dtype = dtype_by_torch(name);
    if (!dtype && name.starts_with("fp")) dtype = dtype_by_name("f" + name.substr(2));
    if (!dtype && name == "half") dtype = DType::f16;
    if (!dtype || (!is_real(*dtype) && !formats::is_fp8(*dtype)))
        throw Error{Exit::usage,
                    "--dtype: {} '{}'; use f64, f32, f16, bf16, f8e4m3:block128, f8e4m3:unscaled or f8e5m2:unscaled "
                    "(aliases: fp64, fp32, fp16, half, float64, float32, float16, bfloat16, fp8:block128)",
                    dtype ? "cannot convert to" : "unknown dtype", text};
    return dtype;
}

/// The requested target; held state keeps the layout of the source unless another one is given.
formats::Target wanted_target(const ReshardOptions& options, const formats::Source& source) {
    if (options.held.empty()) return target_from_options(options, options, source);
    TargetOptions wanted = options;
    if (wanted.to.empty() && !source.layout)
        throw usage_error("the layout of {} is unknown; pass --to LAYOUT", options.checkpoint);
    if (wanted.to.empty()) wanted.to = to_string(*source.layout);
    formats::Target target = target_from_options(wanted, options, source);
    target.held = held_ranks(options.held, target.layout);
    return target;
}

void plan_job(ReshardJob& job, bool allow_missing) {
    formats::Source& source = job.opened.source;
    if (allow_missing) {
        formats::add_missing_biases(source, job.target);
        job.zeros = formats::fill_holes(source.checkpoint);
    } else
        check_no_holes(source.checkpoint.catalogue);
    job.conversion = convert(source, job.target);
    job.moves = make_moves(job.conversion.source_side(), job.conversion.target_side());
}

/// Runs `body`; exceptions that it throws get the name of the file at `path`.
template <class Body>
void with_path(const std::filesystem::path& path, Body&& body) {
    reading(path, [&] { in_path(path.string(), std::forward<Body>(body)); });
}

/// Requires a Hugging Face target on one rank that keeps the names of the source.
void check_quantized_target(const ReshardOptions& options, const formats::Target& target) {
    if (!options.held.empty()) throw Error{Exit::usage, "--dtype {}: only tpx reshard writes FP8", options.dtype};
    const bool named_alike = target.dialect.empty() || target.dialect == "hf" || target.dialect == "keep";
    if (!target.format->is_hugging_face || !named_alike || target.layout.ranks() != 1)
        throw Error{
            Exit::usage,
            "--dtype {}: FP8 is written as a Hugging Face folder for one rank only; use --to tp=1 --format safetensors",
            options.dtype};
}

/// The job that a plan file describes, with the moves that it contains.
ReshardJob prepare_planned(const ReshardOptions& options) {
    formats::PlanFile plan = read_plan_to_run(options.plan);
    formats::FileChange& change = *plan.checkpoint;
    ReshardJob job{.opened = open_checkpoint(options.checkpoint, options, change.settings.config)};
    check_source(change, options.plan, job.opened.source);
    in_context([&] { return options.plan; }, [&] { job.target = target_of(plan); });
    with_path(options.checkpoint, [&] {
        check_no_holes(job.opened.source.checkpoint.catalogue);
        job.conversion = convert(job.opened.source, job.target);
    });
    check_conversion(change, options.plan, job.conversion, job.opened.source);
    job.moves = std::move(change.moves);
    return job;
}

}  // namespace

std::vector<int> held_ranks(const std::string& text, const Layout& layout) {
    std::set<int> ranks;
    const auto invalid = [&] {
        return usage_error("--ranks: '{}' is not a list of ranks, such as 0-3,8, of {} ({})", text, to_string(layout),
                           counted(layout.ranks(), "rank"));
    };
    if (text == "all")
        for (int rank = 0; rank < layout.ranks(); ++rank) ranks.insert(rank);
    for (const char *at = text.data(), *const end = at + text.size(); text != "all" && at < end; ++at) {
        int first = -1;
        auto parsed = std::from_chars(at, end, first);
        int last = first;
        if (parsed.ec == std::errc{} && parsed.ptr < end && *parsed.ptr == '-')
            parsed = std::from_chars(parsed.ptr + 1, end, last);
        at = parsed.ptr;
        const bool ends = at == end || (*at == ',' && at + 1 < end);
        if (parsed.ec != std::errc{} || !ends || first < 0 || last < first || last >= layout.ranks()) throw invalid();
        for (int rank = first; rank <= last; ++rank) ranks.insert(rank);
    }
    return {ranks.begin(), ranks.end()};
}

ReshardJob prepare_reshard(const ReshardOptions& options) {
    if (!options.plan.empty()) return prepare_planned(options);
    ReshardJob job{.opened = open_checkpoint(options.checkpoint, options)};
    formats::Source& source = job.opened.source;
    if (options.masters && options.drop.empty()) throw Error{Exit::usage, "--masters: requires --drop optimizer"};
    const formats::DroppedState dropped =
        options.drop.empty() ? formats::DroppedState{} : formats::keep_weights(source, options.masters);
    std::string merged;
    if (!options.merge_adapter.empty())
        merged = reading(options.merge_adapter, [&] { return formats::merge_adapter(source, options.merge_adapter); });
    job.target = wanted_target(options, source);
    job.target.shard_size = options.shard_size;
    std::string quantized;
    if (wants_fp8_blocks(options.dtype)) {
        check_quantized_target(options, job.target);
        with_path(options.checkpoint, [&] {
            formats::check_whole_model(source, job.target);
            quantized = formats::quantize(source);
        });
        job.target.dialect = "keep";
    } else {
        job.target.dtype = given_dtype(options.dtype);
        job.target.unscaled = is_unscaled(options.dtype);
    }
    with_path(options.checkpoint, [&] { plan_job(job, options.allow_missing); });
    for (std::string* note : {&merged, &quantized})
        if (!note->empty()) job.conversion.notes.push_back(std::move(*note));
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
