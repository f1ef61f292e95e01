// SPDX-License-Identifier: Apache-2.0
#include "lib/change/layout_pair.hpp"

#include "lib/change/model_check.hpp"
#include "lib/core/error.hpp"

#include <algorithm>

namespace tpx {

LayoutPair::LayoutPair(const ModelState& model, const Layout& from, const Layout& to)
    : model_{(check_model(model), model)}, from_{map_of(model, from)}, to_{map_of(model, to)} {
    for (std::uint32_t number = 0; number < model.classes.size(); ++number) add_class(number);
    for (std::uint32_t role = 0; role < model.roles.size(); ++role) add_role(role);
}

ShardMap LayoutPair::map_of(const ModelState& model, const Layout& layout) {
    check_cuts(model, layout);
    return in_context([&] { return to_string(layout); },
                      [&] {
                          if (layout.efsdp > 0)
                              throw Error{Exit::usage, "layout: efsdp= is supported only for checkpoints"};
                          const bool experts = std::ranges::any_of(
                              model.classes, [](const TensorClass& kind) { return kind.experts > 0; });
                          grid_of(layout, experts);  // throws if the experts do not fit the ranks
                          std::vector<int> stages;
                          if (model.layers > 0) stages = stages_of_layers(layout, model.layers);
                          return ShardMap{layout, {.equal = true}, std::move(stages)};
                      });
}

void LayoutPair::add_class(std::uint32_t number) {
    const TensorClass& kind = model_.classes[number];
    const auto same = [&](const ClassGroup& other) {
        const TensorClass& first = model_.classes[other.classes.front()];
        return first.experts == kind.experts && first.layers == kind.layers &&
               first.of_virtual_nodes == kind.of_virtual_nodes &&
               (!kind.layers.empty() || (first.first == kind.first && first.last == kind.last));
    };
    const auto known = std::ranges::find_if(class_groups_, same);
    if (known != class_groups_.end()) return known->classes.push_back(number);
    class_groups_.push_back({{number}, kind.experts > 0, kind.of_virtual_nodes, stage_pairs(kind, from_, to_)});
}

void LayoutPair::add_role(std::uint32_t role) {
    const auto sharing = [&](const Layout& layout) {
        return model_.roles[role].is_of_virtual_nodes() ? Sharing::virtual_nodes
                                                        : sharing_of(layout, model_.roles[role].is_optimizer());
    };
    const Sharing from = sharing(from_.layout());
    const Sharing to = sharing(to_.layout());
    for (RoleGroup& group : role_groups_) {
        if (group.from == from && group.to == to) return group.roles.push_back(role);
    }
    role_groups_.push_back({from, to, {role}});
}

std::vector<std::vector<SharedCut>> LayoutPair::axes(const TensorClass& kind, const RoleGroup& roles) const {
    const TensorForm form = form_of(kind);
    const std::vector<Cuts> from = from_.cuts(form, roles.from);
    const std::vector<Cuts> to = to_.cuts(form, roles.to);
    std::vector<std::vector<SharedCut>> axes;
    for (std::size_t axis = 0; axis < from.size(); ++axis) axes.push_back(shared_cuts(from[axis], to[axis]));
    // Each expert is a separate tensor, so the experts that are stored beside it make no difference.
    if (form.expert_axis >= 0) {
        for (SharedCut& cut : axes[static_cast<std::size_t>(form.expert_axis)]) cut.recut = false;
    }
    return axes;
}

LayoutPair::Sets& LayoutPair::sets(const RoleGroup& roles, bool experts) {
    const auto key = std::tuple{roles.from, roles.to, experts};
    const auto known = sets_.find(key);
    if (known != sets_.end()) return known->second;
    Sets made{{grid_of(from_.layout(), experts), roles.from, holders},
              {grid_of(to_.layout(), experts), roles.to, needers}};
    return sets_.emplace(key, std::move(made)).first->second;
}

std::vector<LayoutPair::Profile> LayoutPair::profiles(const ClassGroup& classes, const RoleGroup& roles) const {
    std::vector<Profile> profiles;
    for (std::uint32_t number : classes.classes) {
        for_each_shared_box(axes(model_.classes[number], roles), {}, [&](const SharedBox& at) {
            profiles.push_back({at.owners, number, static_cast<std::uint64_t>(volume(at.box))});
        });
    }
    sum_elements(profiles, [](const Profile& profile) { return profile.at; });
    return profiles;
}

std::uint64_t LayoutPair::bytes_of_element(const RoleGroup& roles) const {
    std::uint64_t bytes = 0;
    for (std::uint32_t role : roles.roles) bytes += static_cast<std::uint64_t>(itemsize(model_.roles[role].dtype));
    return bytes;
}

}  // namespace tpx
