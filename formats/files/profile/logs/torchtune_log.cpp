// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/framework_log.hpp"
#include "formats/files/profile/logs/log_text.hpp"

// torchtune logs "Step 12 | loss:1.23 lr:2e-05 tokens_per_second_per_gpu:2031.5 peak_memory_active:20.1
// peak_memory_alloc:20.1 peak_memory_reserved:22.5", with memory in GiB, on the console or in a file, and draws bars,
// "1|12|Loss: 1.23:  24%|██▍   | 12/50 [00:18<00:57,  1.50s/it]". The rate counts only tokens of the loss.

namespace tpx::formats {
namespace {

class TorchtuneLog final : public FrameworkLog {
public:
    bool starts_run(const LogLine&) const override { return false; }

    void read(const LogLine& line, LogRun& run) override {
        constexpr double gib = 1 << 30;
        if (!line.text.starts_with("Step ")) return;
        const auto rate = number_after(line.text, " tokens_per_second_per_gpu:");
        if (!rate) return;
        if (const auto used = number_after(line.text, " peak_memory_reserved:")) run.add_memory(*used * gib);
        run.add_step(StepReport::trained_tokens_per_gpu, number_after(line.text, "Step "), *rate);
        run.set_without_plan();
    }
};

}  // namespace

std::unique_ptr<FrameworkLog> torchtune_log() { return std::make_unique<TorchtuneLog>(); }

}  // namespace tpx::formats
