// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/plan/plan_file.hpp"
#include "lib/change/certificate.hpp"
#include "lib/change/model_parcels.hpp"
#include "lib/change/piece_parcels.hpp"
#include "lib/change/placement.hpp"
#include "lib/change/relocation.hpp"
#include "lib/core/error.hpp"
#include "tests/unit/change/random_sides.hpp"

#include <algorithm>

namespace tpx::testing {

/// The hosts of a test plan.
struct Stage {
    int hosts = 4;
    int gpus = 2;
    StateMedium state = StateMedium::memory;
    bool groups = false;   ///< two switch groups
    bool lost = false;     ///< the last host is lost, another is spare
    int lost_device = -1;  ///< of the second host; -1: none
    int group = 1;         ///< of consecutive ranks, see cut_blocks()
};

/// Places and relocates `parcels`: old ranks are on the hosts in order.
inline Change plan_hosts(Parcels parcels, const Stage& stage) {
    std::vector<Host> hosts = uniform_hosts(stage.hosts, stage.gpus);
    for (int h = 0; h < stage.hosts; ++h) {
        hosts[h].nic = h % 2 == 0 ? 2e9 : 3e9;
        hosts[h].disk_read = 1e9;
        hosts[h].disk_write = 5e8;
        hosts[h].memory = 1e10;
        hosts[h].rails = 1 + h;
        if (stage.groups) hosts[h].switch_group = std::string(1, h < stage.hosts / 2 ? 'a' : 'b');
    }
    if (stage.lost) hosts.back().lost = true;
    if (stage.lost) hosts.front().spare = true;
    if (stage.lost_device >= 0) hosts[1].lost_devices = {stage.lost_device};
    std::vector<RankLocation> rank_locations;
    for (int rank = 0; rank < parcels.old_ranks; ++rank)
        rank_locations.push_back({rank / stage.gpus, stage.state == StateMedium::stores ? -1 : rank});
    return make_change(std::move(parcels), std::move(hosts), std::move(rank_locations),
                       {.state = stage.state, .group = stage.group, .may_read = stage.state == StateMedium::shared});
}

/// A model with every kind of class: embeddings with padding, tied or not, dense layers, experts, scalars.
inline ModelState small_model() {
    ModelState model{.name = "small", .layers = 4, .classes = {}, .roles = {}};
    model.classes = {{.name = "embed", .shape = {50, 12}, .tp_axis = 0, .pad = 8, .first = true, .last = true},
                     {.name = "scale", .shape = {}, .last = true},
                     {.name = "q", .shape = {24, 12}, .tp_axis = 0, .layers = {0, 1, 2, 3, 4}},
                     {.name = "norm", .shape = {12}, .layers = {0, 1, 2, 3}},
                     {.name = "router", .shape = {8, 12}, .layers = {1, 2, 3}},
                     {.name = "expert", .shape = {16, 12}, .tp_axis = 1, .layers = {1, 2, 3}, .experts = 8}};
    model.roles = {{Role::weight, DType::bf16}, {Role::master, DType::f32}, {Role::exp_avg, DType::f32}};
    return model;
}

/// A plan from a model.
inline formats::PlanFile model_plan(const std::string& from, const std::string& to, Stage stage) {
    formats::PlanFile file;
    stage.group = tp_span(parse_layout(to));
    file.version = "0.1.0";
    file.from = to_string(parse_layout(from));
    file.to = to_string(parse_layout(to));
    file.model = small_model();
    file.hosts = plan_hosts(model_parcels(*file.model, parse_layout(from), parse_layout(to)), stage);
    return file;
}

/// Places pieces one after the other in two files.
inline void place_in_files(std::vector<Piece>& pieces, const std::vector<Tensor>& tensors,
                           std::vector<FileEntry>& files) {
    files = {{"a/one.bin", 0}, {"two.bin", 0}};
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        Piece& piece = pieces[i];
        FileEntry& file = files[i % 2];
        piece.file = i % 2;
        piece.offset = file.size;
        piece.strides = row_major(sizes(piece.box));
        file.size += static_cast<std::uint64_t>(volume(piece.box) * itemsize(tensors[piece.tensor].dtype));
    }
}

/// A plan for a checkpoint of random pieces, without hosts.
inline formats::PlanFile checkpoint_plan(unsigned seed, int old_ranks = 3, int new_ranks = 4) {
    RandomSides random{seed};
    formats::PlanFile content;
    content.version = "0.1.0";
    content.from = "tp=2";
    content.to = "tp=3,pp=2";
    formats::FileChange& file = content.checkpoint.emplace();
    file.path = "ckpt";
    file.source_digest = 0x0123456789abcdef;
    file.settings = {.format = "safetensors", .dialect = "hf", .dtype = "bf16", .shard_size = 5000000000, .config = {}};
    file.settings.config = {{"a", true}, {"b", std::int64_t{-3}}, {"c", 0.5}, {"d", std::string{"1"}}, {"e", nullptr}};
    file.tensors = random.tensors(random.number(1, 3));
    for (std::size_t i = 0; i < file.tensors.size(); ++i) file.target_dtypes.push_back(DType::f16);
    file.source = random.cover(file.tensors, old_ranks).pieces;
    file.target = random.cover(file.tensors, new_ranks).pieces;
    place_in_files(file.source, file.tensors, file.source_files);
    place_in_files(file.target, file.target_tensors(), file.target_files);
    const std::vector<Tensor> target = file.target_tensors();
    file.moves = make_moves(file.source_side(), {target, file.target});
    file.proven = certify(file.source_side(), {target, file.target}, file.moves);
    return content;
}

/// The same with hosts: ranks hold the bytes that they will write.
inline formats::PlanFile checkpoint_plan_with_hosts(unsigned seed, const Stage& stage) {
    formats::PlanFile content = checkpoint_plan(seed, stage.hosts * stage.gpus, stage.gpus * 2);
    formats::FileChange& file = *content.checkpoint;
    std::vector<std::uint32_t> roles;
    for (std::uint32_t t = 0; t < file.tensors.size(); ++t) {
        roles.push_back(t % 2);
        file.roles.push_back(t % 2 == 0 ? Role::weight : Role::exp_avg);
    }
    const auto held = [](const std::vector<Piece>& pieces) {
        std::vector<Piece> list;
        for (const Piece& piece : pieces)
            list.push_back({.tensor = piece.tensor, .box = piece.box, .rank = piece.rank});
        return list;
    };
    file.held_before = held(file.source);
    file.held_after = held(file.target);
    const Side before{file.tensors, file.held_before}, after{file.tensors, file.held_after};
    const int old_ranks = stage.hosts * stage.gpus, new_ranks = stage.gpus * 2;
    content.hosts =
        plan_hosts(parcels_of(before, after, roles, {Role::weight, Role::exp_avg}, old_ranks, new_ranks), stage);
    file.cells = cells_of(before, after, roles, {Role::weight, Role::exp_avg}, old_ranks, new_ranks);
    return content;
}

}  // namespace tpx::testing
