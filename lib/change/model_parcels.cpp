// SPDX-License-Identifier: Apache-2.0
#include "lib/change/model_parcels.hpp"

#include "lib/change/layout_pair.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace tpx {
namespace {

/// Splits `box` into experts and the box of each, if `experts` are stacked along axis 0.
void set_box(Cell& cell, const Box& box, bool experts) {
    cell.experts = experts ? box[0] : Interval{};
    cell.box = {};
    for (int axis = experts ? 1 : 0; axis < box.size(); ++axis) cell.box.push_back(box[axis]);
}

class Spread {
public:
    Spread(const ModelState& model, const Layout& from, const Layout& to) : model_{model}, pair_{model, from, to} {
        for (const RoleGroup& roles : pair_.role_groups()) add_parcels(roles);
        result_.old_ranks = from.ranks();
        result_.new_ranks = to.ranks();
        for (const StateRole& role : model.roles) result_.roles.push_back(role.role);
        for (const TensorClass& kind : model.classes) result_.tensors.push_back(kind.name);
    }

    Parcels take() {
        result_.holders = std::move(pair_.holders);
        result_.needers = std::move(pair_.needers);
        return std::move(result_);
    }
    void cells(const std::function<void(const Cell&)>& visit);

private:
    void add_parcels(const RoleGroup& roles);
    void class_cells(Cell& cell, const ClassGroup& classes, std::size_t number,
                     const std::function<void(const Cell&)>& visit);

    const ModelState& model_;
    LayoutPair pair_;
    Parcels result_;
    std::vector<std::vector<Overlap>> overlaps_;  // of each group of roles, sorted; each has one parcel per role
    std::vector<std::uint32_t> first_parcel_;     // of each group of roles
    std::vector<std::uint64_t> used_;             // of each parcel: bytes of cells visited so far
};

void Spread::add_parcels(const RoleGroup& roles) {
    std::vector<Overlap> overlaps;
    for (const ClassGroup& classes : pair_.class_groups())
        pair_.for_each_overlap(classes, roles, [&](const Overlap& overlap) { overlaps.push_back(overlap); });
    sum_elements(overlaps, [](const Overlap& overlap) { return overlap.key(); });
    first_parcel_.push_back(static_cast<std::uint32_t>(result_.parcels.size()));
    for (const Overlap& overlap : overlaps) {
        for (std::uint32_t role : roles.roles) {
            const auto element = static_cast<std::uint32_t>(itemsize(model_.roles[role].dtype));
            result_.parcels.push_back({overlap.holders, overlap.needers, role, overlap.tensor, overlap.recut,
                                       overlap.elements * element, element});
        }
    }
    overlaps_.push_back(std::move(overlaps));
}

void Spread::class_cells(Cell& cell, const ClassGroup& classes, std::size_t number,
                         const std::function<void(const Cell&)>& visit) {
    const RoleGroup& roles = pair_.role_groups()[number];
    if (!LayoutPair::has(classes, roles)) return;
    const auto axes = pair_.axes(model_.classes[cell.tensor_class], roles);
    LayoutPair::Sets& numbered = pair_.sets(roles, classes.experts);
    for (const StagePair& stages : classes.stages) {
        cell.layers = stages.layers;
        for_each_shared_box(axes, {}, [&](const SharedBox& at) {
            set_box(cell, at.box, classes.experts);
            const auto [holders, needers] = numbered.numbers(stages, at.owners);
            const auto key = std::tuple{holders, needers, at.owners.recut};
            const auto found = std::ranges::lower_bound(overlaps_[number], key, {}, &Overlap::key);
            const auto slot = static_cast<std::size_t>(found - overlaps_[number].begin());
            cell.parcel = first_parcel_[number] + static_cast<std::uint32_t>(slot * roles.roles.size());
            for (std::uint32_t role : roles.roles) {
                cell.role = role;
                cell.begin = used_[cell.parcel];
                cell.bytes = static_cast<std::uint64_t>(volume(at.box)) * stages.count() *
                             static_cast<std::uint64_t>(itemsize(model_.roles[role].dtype));
                visit(cell);
                used_[cell.parcel++] += cell.bytes;
            }
        });
    }
}

void Spread::cells(const std::function<void(const Cell&)>& visit) {
    used_.assign(result_.parcels.size(), 0);
    for (std::size_t number = 0; number < pair_.role_groups().size(); ++number) {
        for (const ClassGroup& classes : pair_.class_groups()) {
            for (std::uint32_t tensor_class : classes.classes) {
                Cell cell{.tensor_class = tensor_class};
                class_cells(cell, classes, number, visit);
            }
        }
    }
}

}  // namespace

Parcels model_parcels(const ModelState& model, const Layout& from, const Layout& to) {
    return Spread{model, from, to}.take();
}

void for_each_cell(const ModelState& model, const Layout& from, const Layout& to,
                   const std::function<void(const Cell&)>& visit) {
    Spread{model, from, to}.cells(visit);
}

std::vector<std::uint64_t> held_bytes(const ModelState& model, const Layout& layout) {
    const Parcels parcels = model_parcels(model, layout, layout);
    std::vector<std::uint64_t> held(layout.ranks(), 0);
    for (const Parcel& parcel : parcels.parcels) {
        for (std::int32_t rank : parcels.needers[parcel.needers]) held[rank] += parcel.bytes;
    }
    return held;
}

}  // namespace tpx
