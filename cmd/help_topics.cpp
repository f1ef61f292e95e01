// SPDX-License-Identifier: Apache-2.0
#include "cmd/help_topics.hpp"

#include "formats/format_map.hpp"
#include "formats/model_file.hpp"
#include "lib/cluster/policies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tpx::cli {
namespace {

std::string layouts() {
    return "A layout is the number of ranks of a job, and how tensors are split over them:\n"
           "tp=4,pp=2,dp=8, or tp4pp2dp8. Degrees that are not given are 1.\n\n"
           "  tp=N          tensor parallelism\n"
           "  pp=N          pipeline stages; uneven with first=N, last=N or stages=[N,...]\n"
           "  vpp=N         model chunks of each stage\n"
           "  dp=N          data parallelism: replicas, unless fsdp or zero splits them\n"
           "  fsdp=N        ranks that share one copy (FSDP); hsdp=N copies\n"
           "  zero=N        ZeRO stage, 0 to 3: 1 and 2 split optimizer state, 3 weights too\n"
           "  ep=N, etp=N   expert parallelism, and tensor parallelism inside an expert\n"
           "  cp=N          context parallelism: more ranks, no split\n"
           "  vn=N          virtual nodes\n"
           "  ranks=N       number of ranks, instead of dp\n"
           "  order=AXES    numbering of ranks; the default is tp-cp-ep-dp-pp\n\n"
           "A TOML file with these keys is a layout, too. See tpx-layout(5) for details.\n";
}

std::string formats_text() {
    std::string text = "tpx recognizes the format of CKPT by its files. --format takes these names:\n\n";
    for (const formats::FormatEntry& entry : formats::format_map()) {
        std::string title{entry.title.substr(0, entry.title.find_first_of(";,:"))};
        std::erase(title, '`');
        const bool written = entry.written != formats::FormatEntry::Written::no;
        text += fmt::format("  {:<13} {}{}\n", name(entry.format), title, written ? "" : " (read only)");
    }
    return text +
           "\nhf stands for safetensors, mcore for torch_dist, titan for dcp. Tensor names are\n"
           "those of the format's framework; --dialect chooses others.\n"
           "See tpx-formats(7) for details.\n";
}

std::string policies_text() {
    std::string text = "Policies of tpx simulate --policy:\n\n";
    for (const PolicyInfo& policy : policies()) text += fmt::format("  {:<16} {}\n", policy.name, policy.summary);
    return text + "\nSee tpx-simulate(1) for details.\n";
}

std::string models() {
    std::string text = "Models that --model of tpx plan knows by name:\n\n";
    for (const formats::BuiltinModel& model : formats::builtin_models()) text += fmt::format("  {}\n", model.name);
    return text +
           "\nA config.json of Hugging Face or a TOML file describes any other model.\n"
           "See tpx-model(5) for details.\n";
}

std::string traces() {
    return "A trace of tpx simulate is a CSV or JSON file with one job per row: when it was\n"
           "submitted, how many GPUs it asks for, and how long it runs. Columns are found by\n"
           "their usual names, or named with --columns.\n"
           "See tpx-trace(5) for details, and tpx-throughput(5) for measured step times.\n";
}

std::string exit_status() {
    return "  0    success\n"
           "  1    failure; the message names the file, the tensor and the cause\n"
           "  2    usage error\n"
           "  3    the answer is no: a check failed, or checkpoints differ\n"
           "  4    the output is complete, but a later step failed\n"
           "  75   stopped by SIGTERM or SIGUSR1; the same command continues\n"
           "  130  interrupted (SIGINT)\n";
}

constexpr std::array<HelpTopic, 6> topics{{{"layouts", "How tensors are split over ranks", layouts},
                                           {"formats", "Checkpoint formats that are read and written", formats_text},
                                           {"models", "Models that plans can be made for by name", models},
                                           {"policies", "Schedulers of tpx simulate", policies_text},
                                           {"traces", "Input of tpx simulate", traces},
                                           {"exit-status", "What exit statuses mean", exit_status}}};

}  // namespace

std::span<const HelpTopic> help_topics() { return topics; }

const HelpTopic* find_help_topic(std::string_view name) {
    const auto* found = std::ranges::find(topics, name, &HelpTopic::name);
    return found == topics.end() ? nullptr : found;
}

}  // namespace tpx::cli
