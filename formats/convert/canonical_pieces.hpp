// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/convert/conversion.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

namespace tpx::formats {

/// The canonical form of `tensor`: a row of bytes if its elements are smaller than a byte, else unchanged.
Tensor in_bytes(const Tensor& tensor);

/// The parts of a stored tensor, indexed by their positions on the layer and expert axes, where each part has exactly
/// one position. A piece of a stack contains only a few of its many parts.
class PartsByPlace {
public:
    PartsByPlace() = default;
    PartsByPlace(const std::vector<NumberedPart>& parts, int axes) : parts_{&parts} {
        for (int axis = 0; axis < axes; ++axis) {
            const bool spread = std::ranges::any_of(parts, [&](const NumberedPart& part) {
                return axis >= part.part.offset.size() || !part.part.view.empty() ||
                       std::ranges::find(part.part.axis, axis) != part.part.axis.end();
            });
            if (!spread) axes_.push_back(axis);
        }
        for (const NumberedPart& part : parts) by_place_[place(part)].push_back(&part);
    }

    /// Calls `each` for the parts that may overlap `box`, in order.
    template <class Each>
    void for_each_in(const Box& box, Each&& each) const {
        if (!axes_.empty()) return descend(box, {}, each);
        for (const NumberedPart& part : *parts_) each(part);
    }

private:
    Tuple<Index> place(const NumberedPart& part) const {
        Tuple<Index> at;
        for (int axis : axes_) at.push_back(part.part.offset[axis]);
        return at;
    }

    template <class Each>
    void descend(const Box& box, Tuple<Index> at, Each&& each) const {
        if (at.size() == static_cast<int>(axes_.size())) {
            const auto found = by_place_.find(at);
            if (found == by_place_.end()) return;
            for (const NumberedPart* part : found->second) each(*part);
            return;
        }
        const Interval side = box[axes_[static_cast<std::size_t>(at.size())]];
        at.push_back(0);
        for (Index i = side.begin; i < side.end; ++i) {
            at[at.size() - 1] = i;
            descend(box, at, each);
        }
    }

    const std::vector<NumberedPart>* parts_ = nullptr;
    std::vector<int> axes_;
    std::map<Tuple<Index>, std::vector<const NumberedPart*>> by_place_;
};

/// Cuts pieces of stored tensors into pieces of canonical tensors. Indexes the parts of stacks, which have many, by
/// position.
class PieceCutter {
public:
    /// Appends to `out` the overlaps of `stored`, a piece of `tensor`, with the tensor's `parts`, which must be the
    /// same in every call for this tensor. Throws Error "tensor 'NAME': ..." for a cut through a tensor whose elements
    /// are smaller than a byte.
    void cut(const Tensor& tensor, const Piece& stored, const std::vector<NumberedPart>& parts,
             std::vector<Piece>& out);

private:
    std::unordered_map<std::uint32_t, PartsByPlace> places_;
};

/// Cuts `pieces` of stored tensors into pieces of the canonical tensors in `parts`, which has one list for each stored
/// tensor. Throws Error like PieceCutter::cut().
std::vector<Piece> canonical_pieces(std::span<const Tensor> tensors, std::span<const Piece> pieces,
                                    std::span<const std::vector<NumberedPart>> parts);

/// Finds the payloads of all pieces.
void locate_all(Checkpoint& checkpoint);

}  // namespace tpx::formats
