// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/help_topics.hpp"

#include "cmd/cli/cli.hpp"
#include "formats/files/model_file.hpp"
#include "formats/format_map.hpp"
#include "formats/registry.hpp"
#include "lib/cluster/policies.hpp"
#include "lib/core/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tpx::cli {
namespace {

std::string layouts() {
    return "A layout defines how many ranks a job has and how tensors are split over them,\n"
           "such as tp=4,pp=2,dp=8 (or tp4pp2dp8). Omitted keys are 1 or are inferred.\n\n"
           "  tp=N          tensor parallelism\n"
           "  pp=N          pipeline stages; uneven with first=N, last=N or stages=[N,...]\n"
           "  vpp=N         model chunks of each stage\n"
           "  dp=N          data parallelism: replicas, unless fsdp or zero splits them\n"
           "  fsdp=N        ranks over which FSDP splits one replica; hsdp=N: replicas\n"
           "  zero=N        ZeRO stage, 0 to 3: 1 and 2 split optimizer state, 3 weights too\n"
           "  ep=N, etp=N   expert parallelism, and tensor parallelism inside an expert\n"
           "  cp=N          context parallelism: multiplies the ranks, splits no parameter\n"
           "  vn=N          virtual nodes\n"
           "  ranks=N       total number of ranks; dp follows from it\n"
           "  order=AXES    numbering of ranks; the default is tp-cp-ep-dp-pp\n\n"
           "A TOML file with these keys is a layout, too. See tpx-layout(5) for details.\n";
}

std::string limits(const formats::Driver& driver) {
    using enum formats::WritableFrom;
    if (driver.written == any) return "";
    return driver.written == nothing ? " (read only)" : fmt::format(" (written {})", formats::written_text(driver));
}

std::string formats_text() {
    std::string text = "tpx recognizes the format of CKPT by its content; --format chooses that of OUT:\n\n";
    for (const formats::Format format : formats::drivers()) {
        std::string title{format->title.substr(0, format->title.find_first_of(";,:"))};
        std::erase(title, '`');
        text += fmt::format("  {:<13} {}{}\n", format->name, title, limits(*format));
    }
    return text +
           "\nAliases: hf, huggingface and transformers are safetensors; mcore and\n"
           "megatron-core are torch_dist; fsdp, fsdp2, titan and torchtitan are dcp; zero is\n"
           "deepspeed; pt is torch; h5 is hdf5. Tensors get the names that the format's\n"
           "framework uses; --dialect chooses other names.\n"
           "See tpx-formats(7) for details.\n";
}

std::string policies_text() {
    std::string text = "Policies of tpx simulate --policy:\n\n";
    constexpr std::size_t width = 16;
    for (const PolicyInfo& policy : policies()) {
        const std::string gap = policy.name.size() > width ? fmt::format("\n{:{}}", "", width + 3) : " ";
        text += fmt::format("  {:<{}}{}{}\n", policy.name, width, gap, policy.summary);
    }
    return text + "\nSee tpx-simulate(1) for details.\n";
}

std::string models() {
    std::string text = "Built-in models of tpx plan --model:\n\n";
    for (const formats::BuiltinModel& model : formats::builtin_models()) text += fmt::format("  {}\n", model.name);
    return text +
           "\nA config.json of Hugging Face or a TOML file describes any other model.\n"
           "See tpx-model(5) for details.\n";
}

std::string traces() {
    return "A trace of tpx simulate is a CSV or JSON file with one job per row: when it was\n"
           "submitted, how many GPUs it requests, and how long it runs. Columns are found by\n"
           "their common names. The output of Slurm's sacct is such a trace:\n"
           "  sacct -a -X -P -S 2026-01-01 \\\n"
           "      -o JobID,Account,Submit,Start,End,ElapsedRaw,ReqTRES > jobs.txt\n"
           "  tpx simulate jobs.txt --cluster 16x8\n"
           "See tpx-trace(5) for details, and tpx-throughput(5) for measured step times.\n";
}

std::string exit_status() {
    return "  0    success\n"
           "  1    failure; standard error has the cause\n"
           "  2    usage error\n"
           "  3    negative result: checkpoints differ, a check failed, or the request is\n"
           "       not possible\n"
           "  4    the output is complete, but a later step failed\n"
           "  75   stopped by SIGTERM or SIGUSR1; run the same command again to continue\n"
           "  130  interrupted (SIGINT)\n";
}

constexpr std::array<HelpTopic, 6> topics{{{"layouts", "How tensors are split over ranks", layouts},
                                           {"formats", "Checkpoint formats that are read and written", formats_text},
                                           {"models", "Built-in models of tpx plan --model", models},
                                           {"policies", "Scheduling policies of tpx simulate", policies_text},
                                           {"traces", "Job traces of tpx simulate", traces},
                                           {"exit-status", "Exit statuses", exit_status}}};

}  // namespace

std::span<const HelpTopic> help_topics() { return topics; }

std::string unknown_topic_advice(std::string_view name) {
    using Pair = std::pair<std::string_view, std::string_view>;
    static constexpr std::array related{Pair{"policy", "'policies'"},        Pair{"scheduling", "'policies'"},
                                        Pair{"exit", "'exit-status'"},       Pair{"exit-code", "'exit-status'"},
                                        Pair{"exit-codes", "'exit-status'"}, Pair{"status", "'exit-status'"},
                                        Pair{"dialects", "'formats'"},       Pair{"dialect", "'formats'"}};
    if (name == "json" || name == "--json" || name == "schemas") return "; see tpx-json(7)";
    const auto* found = std::ranges::find(related, name, &Pair::first);
    if (found != related.end()) return fmt::format("; did you mean {}?", found->second);
    std::vector<std::string> names;
    for (const HelpTopic& topic : topics) names.emplace_back(topic.name);
    return did_you_mean(name, names);
}

const HelpTopic* find_help_topic(std::string_view name) {
    const auto* found = std::ranges::find(topics, name, &HelpTopic::name);
    return found == topics.end() ? nullptr : found;
}

}  // namespace tpx::cli
