// SPDX-License-Identifier: Apache-2.0
#include "formats/files/profile/logs/framework_log.hpp"
#include "formats/files/profile/logs/log_text.hpp"

// The benchmarks of Colossal-AI print "num_samples: 96, dp_world_size: 4, flop_megatron: 1.2e+17, flop: ...,
// avg_duration: 41.3, avg_throughput: 9.29" at the end: samples per second of all replicas, after warm-up. The degrees
// of tensor and pipeline parallelism are not printed.

namespace tpx::formats {
namespace {

class ColossalLog final : public FrameworkLog {
public:
    bool starts_run(const LogLine& line) const override { return line.text.starts_with("num_samples: "); }

    void read(const LogLine& line, LogRun& run) override {
        if (!line.text.starts_with("num_samples: ")) return;
        if (const auto rate = number_after(line.text, "avg_throughput: "))
            run.set_mean(StepReport::samples_per_second, *rate, 0);
        run.set_without_plan();
    }
};

}  // namespace

std::unique_ptr<FrameworkLog> colossal_log() { return std::make_unique<ColossalLog>(); }

}  // namespace tpx::formats
