// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/framework_log.hpp"
#include "formats/files/profile/logs/log_text.hpp"
#include "lib/core/lower_case.hpp"

#include <algorithm>
#include <array>
#include <utility>

// torchtitan logs "... - root - INFO - step: 10  loss:  7.7408  grad_norm:  1.4604  memory: 15.45GiB(24.14%)  tps: 905
// tflops: 58.77  mfu: 19.71%": tokens per second per GPU since the last report. The mesh, the model, its batch sizes
// and the GPU are logged before the first step.

namespace tpx::formats {
namespace {

// What is between two marks in `text`; empty where one is missing.
std::string_view between(std::string_view text, std::string_view before, std::string_view behind) {
    const std::size_t begin = text.find(before);
    if (begin == text.npos) return {};
    text.remove_prefix(begin + before.size());
    const std::size_t end = text.find(behind);
    return end == text.npos ? std::string_view{} : text.substr(0, end);
}

class TorchtitanLog final : public FrameworkLog {
public:
    bool starts_run(const LogLine& line) const override {
        return contains(line.text, "Starting job:") || contains(line.text, "evice mesh with ");
    }

    void read(const LogLine& line, LogRun& run) override {
        read_mesh(line.text, run);
        read_model(line.text, run);
        read_batch(line.text, run);
        read_techniques(line.text, run);
        read_step(line.text, run);
    }

private:
    using enum LogField;

    static constexpr double gibibyte = 1 << 30;

    // One degree of the mesh. Sharded data parallelism is FSDP.
    static void add_degree(std::string_view name, double size, LogRun& run) {
        constexpr std::array<std::pair<std::string_view, LogField>, 5> degrees{
            {{"pp", pp}, {"tp", tp}, {"cp", cp}, {"ep", ep}, {"etp", etp}}};
        const auto degree = std::ranges::find(degrees, name, &decltype(degrees)::value_type::first);
        if (degree != degrees.end()) run.set(degree->second, size);
        if (name == "tp" && size > 1) run.set(sequence, "1");
        if (name.starts_with("dp")) run.set(dp, run.number(dp, 1) * size);
        if (name.starts_with("dp_shard") && size > 1) run.set(zero, "3");
    }

    // "Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=8, cp=1, tp=1, ep=1, etp=1", or
    // "Building 2-D device mesh with ['dp_shard', 'tp'], [4, 2]".
    static void read_mesh(std::string_view text, LogRun& run) {
        if (!contains(text, "evice mesh with ")) return;
        run.forget(dp);
        for (const char* name : {"pp", "dp_replicate", "dp_shard", "cp", "tp", "ep", "etp"})
            if (const auto size = number_after(text, fmt::format(" {}=", name))) add_degree(name, *size, run);
        std::string_view names = between(text, "mesh with [", "]");
        std::string_view sizes = between(text, "], [", "]");
        while (names.find('\'') != names.npos) {
            names.remove_prefix(names.find('\'') + 1);
            const std::string_view name = names.substr(0, names.find('\''));
            names.remove_prefix(std::min(name.size() + 1, names.size()));
            add_degree(name, number_after(sizes, "").value_or(1), run);
            sizes.remove_prefix(std::min(sizes.find(' ') + 1, sizes.size()));
        }
    }

    // "Model llama3 8B size: 8,030,261,248 total parameters", "CUDA capacity: NVIDIA H100 with 95.04GiB memory".
    static void read_model(std::string_view text, LogRun& run) {
        if (contains(text, " total parameters")) {
            if (const std::string_view name = between(text, "Model ", " size: "); !name.empty()) run.set(model, name);
            if (const auto count = number_after(text, " size: ")) run.set(parameters, *count);
        }
        if (!contains(text, "GiB memory")) return;
        if (const std::string_view name = between(text, " capacity: ", " with "); !name.empty()) run.set(gpu, name);
    }

    static void read_batch(std::string_view text, LogRun& run) {
        if (contains(text, "is initialized with ") || contains(text, "Training starts at step")) {
            constexpr std::array<std::pair<std::string_view, LogField>, 5> marks{
                {{"local batch size ", micro_batch},
                 {"global batch size ", batch},
                 {"gradient accumulation steps ", accumulation},
                 {"sequence length ", sequence_length},
                 {"maximum context length ", sequence_length}}};
            for (const auto& [mark, field] : marks)
                if (const auto count = number_after(text, mark)) run.set(field, *count);
            // Since 2026, torchtitan prints the batch size in tokens.
            const double length = run.number(sequence_length);
            const std::string_view tokens = between(text, "DP rank, ", " tokens per train step");
            if (!tokens.empty() && length > 0) run.set_whole(batch, number_after(tokens, "").value_or(0) / length);
        }
    }

    static void read_techniques(std::string_view text, LogRun& run) {
        const std::string kind = lower_case(between(text, "Applied ", " activation checkpointing"));
        for (const char* granularity : {"full", "selective"})
            if (kind.starts_with(granularity)) run.set(recompute, granularity);
        if (contains(text, "Applied CPU Offloading")) run.set(offload, "1");
        // The mesh of 2024 has one degree of data parallelism, 'dp', and does not record what it shards.
        if (contains(text, "Applied FSDP to the model") || contains(text, "Applied HSDP to the model"))
            if (run.number(dp, 0) != 1) run.set(zero, "3");
        if (!contains(text, "Using pipeline schedule ")) return;
        if (const auto count = number_after(text, " with ")) run.set(micro_batches, *count);
        const auto stages = number_after(text, "microbatches and ");
        if (stages && *stages > run.number(pp, 1)) run.set_whole(vpp, *stages / run.number(pp, 1));
    }

    static void read_step(std::string_view text, LogRun& run) {
        if (contains(text, "validate step:")) return;
        if (const auto used = number_after(text, "  memory:")) run.add_memory(*used * gibibyte);
        for (const char* mark : {"  tps:", "  wps:"})
            if (const auto rate = number_after(text, mark))
                run.add_step(StepReport::tokens_per_gpu, number_after(text, "step:"), *rate);
    }
};

}  // namespace

std::unique_ptr<FrameworkLog> torchtitan_log() { return std::make_unique<TorchtitanLog>(); }

}  // namespace tpx::formats
