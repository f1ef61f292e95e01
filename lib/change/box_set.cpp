// SPDX-License-Identifier: Apache-2.0
#include "lib/change/box_set.hpp"

#include <algorithm>

namespace tpx {
namespace {

constexpr std::size_t fan_out = 8;

// The smallest box around each run of `fan_out` boxes.
std::vector<Box> bounds(const std::vector<Box>& boxes) {
    std::vector<Box> nodes;
    nodes.reserve(boxes.size() / fan_out + 1);
    for (std::size_t i = 0; i < boxes.size(); ++i) {
        if (i % fan_out == 0) {
            nodes.push_back(boxes[i]);
            continue;
        }
        Box& node = nodes.back();
        for (int k = 0; k < node.size(); ++k)
            node[k] = {std::min(node[k].begin, boxes[i][k].begin), std::max(node[k].end, boxes[i][k].end)};
    }
    return nodes;
}

}  // namespace

bool overlap(const Box& a, const Box& b) {
    for (int k = 0; k < a.size(); ++k) {
        if (std::max(a[k].begin, b[k].begin) >= std::min(a[k].end, b[k].end)) return false;
    }
    return true;
}

void subtract(const Box& box, const Box& hole, std::vector<Box>& rest) {
    if (!overlap(box, hole)) {
        rest.push_back(box);
        return;
    }
    Box core = box;
    for (int k = 0; k < box.size(); ++k) {
        Box slab = core;
        slab[k] = {core[k].begin, hole[k].begin};
        if (slab[k].begin < slab[k].end) rest.push_back(slab);
        slab[k] = {hole[k].end, core[k].end};
        if (slab[k].begin < slab[k].end) rest.push_back(slab);
        core[k] = intersect(core[k], hole[k]);
    }
}

void carve(std::vector<Box>& rest, const Box& hole, std::vector<Box>& scratch) {
    scratch.clear();
    for (const Box& box : rest) subtract(box, hole, scratch);
    rest.swap(scratch);
}

BoxIndex::BoxIndex(std::vector<Box> boxes) : boxes_{std::move(boxes)} {
    for (const auto* below = &boxes_; below->size() > fan_out; below = &levels_.back()) {
        std::vector<Box> level = bounds(*below);
        levels_.push_back(std::move(level));
    }
}

void BoxIndex::overlapping(const Box& box, std::vector<std::uint32_t>& found) const {
    found.clear();
    const std::size_t roots = levels_.empty() ? boxes_.size() : levels_.back().size();
    for (std::size_t node = 0; node < roots; ++node) descend(levels_.size(), node, box, found);
}

void BoxIndex::descend(std::size_t level, std::size_t node, const Box& box, std::vector<std::uint32_t>& found) const {
    const std::vector<Box>& here = level == 0 ? boxes_ : levels_[level - 1];
    if (!overlap(here[node], box)) return;
    if (level == 0) {
        found.push_back(static_cast<std::uint32_t>(node));
        return;
    }
    const std::size_t below = level == 1 ? boxes_.size() : levels_[level - 2].size();
    const std::size_t end = std::min(below, (node + 1) * fan_out);
    for (std::size_t child = node * fan_out; child < end; ++child) descend(level - 1, child, box, found);
}

std::vector<Box> disjoint(std::vector<Box> boxes) {
    std::erase_if(boxes, [](const Box& box) { return empty(box); });
    std::sort(boxes.begin(), boxes.end());
    boxes.erase(std::unique(boxes.begin(), boxes.end()), boxes.end());
    if (boxes.size() < 2) return boxes;

    const BoxIndex index{std::move(boxes)};
    std::vector<Box> united;
    std::vector<Box> rest;
    std::vector<Box> scratch;
    std::vector<std::uint32_t> found;
    for (std::uint32_t i = 0; i < index.boxes().size(); ++i) {
        rest.assign(1, index.boxes()[i]);
        index.overlapping(rest.front(), found);
        for (std::uint32_t earlier : found) {
            if (earlier < i) carve(rest, index.boxes()[earlier], scratch);
        }
        united.insert(united.end(), rest.begin(), rest.end());
    }
    std::sort(united.begin(), united.end());
    return united;
}

std::vector<Box> difference(std::span<const Box> boxes, const BoxIndex& holes) {
    std::vector<Box> left;
    std::vector<Box> rest;
    std::vector<Box> scratch;
    std::vector<std::uint32_t> found;
    for (const Box& box : boxes) {
        rest.assign(1, box);
        holes.overlapping(box, found);
        for (std::uint32_t hole : found) carve(rest, holes.boxes()[hole], scratch);
        left.insert(left.end(), rest.begin(), rest.end());
    }
    return left;
}

Index volume(std::span<const Box> boxes) {
    Index elements = 0;
    for (const Box& box : boxes) elements += volume(box);
    return elements;
}

}  // namespace tpx
