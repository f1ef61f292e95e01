// SPDX-License-Identifier: Apache-2.0
#include "formats/files/plan/plan_file.hpp"
#include "lib/core/fingerprint.hpp"

#include <bit>

namespace tpx::formats {
namespace {

void add(Fingerprint& print, const ModelState& model) {
    print.add(model.name);
    print.add(static_cast<std::uint64_t>(model.layers));
    print.add(model.classes.size());
    for (const TensorClass& kind : model.classes) {
        print.add(kind.name);
        print.add(whole(kind.shape));
        for (std::int64_t number : {Index{kind.shape.size()}, Index{kind.tp_axis}, kind.pad, kind.experts,
                                    Index{kind.first}, Index{kind.last}, std::ssize(kind.layers)})
            print.add(static_cast<std::uint64_t>(number));
        for (int layer : kind.layers) print.add(static_cast<std::uint64_t>(layer));
        if (kind.of_virtual_nodes) print.add(std::uint64_t{1});
    }
    for (const StateRole& role : model.roles) {
        print.add(name(role.role));
        print.add(name(role.dtype));
    }
}

void add(Fingerprint& print, const Change& plan) {
    print.add(static_cast<std::uint64_t>(plan.state));
    print.add(!plan.placement.is_proven());
    print.add(plan.relocation.window);
    print.add(plan.hosts.size());
    for (const Host& host : plan.hosts) {
        print.add(host.name);
        print.add(host.switch_group);
        for (const auto& rate : {host.nic, host.disk_read, host.disk_write, host.memory})
            print.add(std::bit_cast<std::uint64_t>(rate.value_or(0)));
        for (int number : {host.gpus, host.rails, int{host.lost}, int{host.spare}})
            print.add(static_cast<std::uint64_t>(number));
    }
    const std::vector<std::int32_t> firsts = first_devices(plan.hosts);
    for (std::size_t h = 0; h < plan.hosts.size(); ++h) {
        for (int device : plan.hosts[h].lost_devices) print.add(static_cast<std::uint64_t>(firsts[h] + device));
    }
    print.add(plan.old_ranks.size());
    for (const RankLocation& location : plan.old_ranks) {
        print.add(static_cast<std::uint64_t>(location.host));
        print.add(static_cast<std::uint64_t>(location.device));
    }
    print.add(plan.placement.devices.size());
    for (const Role role : plan.parcels.roles) print.add(name(role));
    for (const std::string& tensor : plan.parcels.tensors) print.add(tensor);
    // Plans without known iterations keep the digest that they had before iterations were recorded.
    for (const StateSource& source : plan.sources) {
        if (!source.iteration) continue;
        print.add(std::uint64_t{source.host});
        print.add(*source.iteration);
    }
}

void add(Fingerprint& print, std::span<const FileEntry> files) {
    print.add(files.size());
    for (const FileEntry& file : files) {
        print.add(file.path.string());
        print.add(file.size);
    }
}

void add(Fingerprint& print, std::span<const Piece> pieces) {
    print.add(pieces.size());
    for (const Piece& piece : pieces) {
        for (std::uint64_t number : {std::uint64_t{piece.tensor}, std::uint64_t{piece.file}, piece.offset,
                                     static_cast<std::uint64_t>(piece.rank)})
            print.add(number);
        print.add(piece.box);
        print.add(static_cast<std::uint64_t>(piece.strides.size()));
        for (Index stride : piece.strides) print.add(static_cast<std::uint64_t>(stride));
    }
}

// What ranks hold is not in files, so these pieces have no file, offset or strides.
void add_held(Fingerprint& print, std::span<const Piece> pieces) {
    print.add(pieces.size());
    for (const Piece& piece : pieces) {
        print.add(std::uint64_t{piece.tensor});
        print.add(static_cast<std::uint64_t>(piece.rank));
        print.add(piece.box);
    }
}

void add(Fingerprint& print, const ConversionSettings& settings) {
    for (const std::string* text : {&settings.format, &settings.dialect, &settings.dtype}) print.add(*text);
    print.add(settings.shard_size.value_or(0));
    for (const auto& [key, value] : settings.config) {
        print.add(key);
        print.add(static_cast<std::uint64_t>(value.index()));
        if (const auto* text = std::get_if<std::string>(&value)) print.add(*text);
        if (const auto* flag = std::get_if<bool>(&value)) print.add(std::uint64_t{*flag});
        if (const auto* number = std::get_if<std::int64_t>(&value)) print.add(static_cast<std::uint64_t>(*number));
        if (const auto* real = std::get_if<double>(&value)) print.add(std::bit_cast<std::uint64_t>(*real));
    }
}

void add(Fingerprint& print, const FileChange& plan) {
    print.add(plan.path);
    print.add(plan.source_digest);
    add(print, plan.settings);
    print.add(plan.tensors.size());
    for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
        print.add(plan.tensors[t].name);
        print.add(name(plan.tensors[t].dtype));
        print.add(name(plan.target_dtypes[t]));
        print.add(whole(plan.tensors[t].shape));
    }
    for (const Role role : plan.roles) print.add(name(role));
    add(print, plan.source_files);
    add(print, plan.target_files);
    add(print, std::span{plan.source});
    add(print, std::span{plan.target});
    add_held(print, plan.held_before);
    add_held(print, plan.held_after);
}

}  // namespace

std::uint64_t request_digest(const PlanFile& content) {
    Fingerprint print;
    print.add(content.from);
    print.add(content.to);
    if (content.model) add(print, *content.model);
    if (content.hosts) add(print, *content.hosts);
    if (content.checkpoint) add(print, *content.checkpoint);
    return print.value();
}

}  // namespace tpx::formats
