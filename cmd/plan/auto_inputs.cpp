// SPDX-License-Identifier: Apache-2.0
#include "cmd/plan/auto_inputs.hpp"

#include "cmd/cli/cli.hpp"
#include "cmd/cli/shared_options.hpp"
#include "cmd/plan/plan_hosts.hpp"
#include "cmd/plan/planning.hpp"
#include "formats/convert/canonical_pieces.hpp"
#include "formats/files/profile/throughput_file.hpp"
#include "lib/change/cut_blocks.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/unexpected.hpp"
#include "lib/layout/candidates.hpp"

#include <algorithm>
#include <cmath>

namespace tpx::cli {
namespace {

// The sizes of a checkpoint's model on which step time depends; unknown sizes are estimated from known ones.
ModelSize size_of(const formats::Source& source, const AutoInputs& subject, double sequence) {
    const auto known = [&](char factor, double otherwise) {
        return static_cast<double>(source.reading.dims[factor].value_or(static_cast<Index>(otherwise)));
    };
    ModelSize size{.name = "checkpoint", .layers = subject.layers, .sequence = sequence};
    const auto& tensors = source.checkpoint.catalogue.tensors;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        const Meaning& meaning = source.reading.meanings[t];
        if (meaning.role == Role::weight && meaning.kind != Meaning::Kind::extra)
            size.parameters += static_cast<double>(volume(tensors[t].shape));
    }
    size.hidden = known('h', std::sqrt(size.parameters / 12 / subject.layers));
    size.heads = std::max(1.0, size.hidden / 128);
    size.vocabulary = known('v', 0);
    return size;
}

void add_model(AutoInputs& subject, const PlanOptions& options, double sequence) {
    check_model_request(options);
    subject.model = model_from_options(options);
    subject.from = layout_from_text_or_file(options.from);
    subject.layers = subject.model->layers;
    for (const TensorClass& each : subject.model->classes)
        subject.experts = std::max(subject.experts, static_cast<int>(each.experts));
    subject.size = tpx::size_of(*subject.model, sequence, subject.model->experts_per_token);
}

void add_checkpoint(AutoInputs& subject, const PlanOptions& options, double sequence, OpenedCheckpoint opened) {
    subject.opened = std::move(opened);
    formats::Source& source = subject.opened->source;
    reading(options.checkpoint, [&] { formats::locate_all(source.checkpoint); });
    subject.from = options.from.empty() ? source.layout.value_or(Layout{}) : layout_from_text_or_file(options.from);
    subject.cut_by_family = source.reading.family != nullptr;
    if (subject.cut_by_family) subject.layers = layers(source.reading, source.checkpoint.catalogue.tensors);
    subject.experts = static_cast<int>(source.reading.dims['e'].value_or(0));
    subject.size = size_of(source, subject, sequence);
}

// "1.56e+09 parameters in 48 layers"
std::string size_text(const ModelSize& size) {
    return fmt::format("{:.3g} parameters in {}", size.parameters, counted(std::uint64_t(size.layers), "layer"));
}

// Uses the parameters that were fitted to runs, and what the fit knows of batch and GPUs if no option sets it.
void add_fit(AutoInputs& subject, const PlanOptions& options) {
    constexpr double most_apart = 0.05;  // models are counted with and without biases and padding
    if (options.throughput.empty()) return;
    const formats::ThroughputModel model = formats::read_throughput_model(options.throughput);
    if (!model.parameters)
        throw Error{Exit::usage, "{}: has no fitted parameters; tpx profile fit writes them", options.throughput};
    if (std::abs(model.size.parameters / std::max(1.0, subject.size.parameters) - 1) > most_apart)
        subject.fit_of_other = fmt::format("{} was fitted to a model with {}, and this one has {}", options.throughput,
                                           size_text(model.size), size_text(subject.size));
    subject.fitted = model.parameters;
    subject.size = model.size;
    if (model.batch && !options.batch) subject.batch = *model.batch;
    for (Host& host : subject.hosts)
        if (!host.device_memory) host.device_memory = model.gpu_memory;
}

/// The number of devices that new ranks may use.
int usable_devices(std::span<const Host> hosts) {
    int devices = 0;
    for (const Host& host : hosts) devices += host.spare ? 0 : free_devices(host);
    return devices;
}

void add_hosts(AutoInputs& subject, const PlanOptions& options) {
    subject.hosts = hosts_from_options(options, subject.from.ranks());
    subject.ranks = static_cast<int>(options.devices.value_or(usable_devices(subject.hosts)));
    if (subject.ranks > subject.from.ranks()) subject.hosts = hosts_from_options(options, subject.ranks);
}

// Removes layouts that use any of `excluded`; a layout counts once for each excluded technique that it uses.
void exclude_techniques(PossibleLayouts& found, std::span<const std::string_view> excluded) {
    for (const std::string_view technique : excluded) {
        const auto users =
            std::ranges::count_if(found.layouts, [&](const Layout& layout) { return uses(layout, technique); });
        if (users > 0) found.excluded_by_technique.emplace_back(technique, users);
    }
    found.excluded = std::erase_if(found.layouts, [&](const Layout& layout) {
        return std::ranges::any_of(excluded, [&](std::string_view technique) { return uses(layout, technique); });
    });
}

}  // namespace

AutoInputs auto_inputs(const PlanOptions& options) {
    const double sequence = static_cast<int>(options.sequence.value_or(4096));
    AutoInputs subject;
    subject.batch = static_cast<int>(options.batch.value_or(512));
    subject.excluded = excluded_techniques(options, layout_techniques);
    if (options.model.empty())
        add_checkpoint(subject, options, sequence, open_checkpoint(options.checkpoint, options));
    else
        add_model(subject, options, sequence);
    add_hosts(subject, options);
    add_fit(subject, options);
    return subject;
}

AutoInputs auto_inputs(const PlanOptions& options, const OpenedCheckpoint& opened, std::span<const Host> hosts) {
    const double sequence = static_cast<int>(options.sequence.value_or(4096));
    AutoInputs subject;
    subject.batch = static_cast<int>(options.batch.value_or(512));
    subject.excluded = excluded_techniques(options, layout_techniques);
    add_checkpoint(subject, options, sequence, opened);
    subject.hosts.assign(hosts.begin(), hosts.end());
    add_fit(subject, options);
    subject.ranks = static_cast<int>(options.devices.value_or(usable_devices(hosts)));
    return subject;
}

PossibleLayouts possible_layouts(const AutoInputs& subject) {
    CandidateLimits limits{
        .ranks = subject.ranks, .layers = subject.layers, .experts = subject.experts, .like = subject.from};
    limits.most_tp = subject.from.tp;
    for (const Host& host : subject.hosts) limits.most_tp = std::max(limits.most_tp, host.gpus);
    if (!subject.cut_by_family) limits.most_tp = limits.layers = 1;
    limits.like = without_techniques(limits.like, subject.excluded);
    PossibleLayouts found{.layouts = candidates(limits)};
    exclude_techniques(found, subject.excluded);
    found.split = std::erase_if(found.layouts, [&](const Layout& layout) {
        const int group = tp_span(layout);
        return !split_groups(cut_blocks(subject.hosts, subject.ranks, group), group).empty();
    });
    return found;
}

}  // namespace tpx::cli
