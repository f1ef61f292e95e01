// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace tpx {

/// Trees over nodes, some of which are carried: they come along with another node, or are that node itself. Only
/// carriers hang and change parents.
class Forest {
public:
    static constexpr std::uint32_t none = ~0u;

    explicit Forest(std::size_t nodes) : parents_(nodes, none), carriers_(nodes, none), children_(nodes) {}

    std::size_t size() const { return parents_.size(); }
    std::uint32_t parent(std::uint32_t node) const { return parents_[node]; }

    /// From now on `node` is where `carrier` is; they may be the same.
    void carry(std::uint32_t node, std::uint32_t carrier);

    /// Hangs `node` under `parent`, or makes it a root when that is `none`.
    void hang(std::uint32_t node, std::uint32_t parent);

    /// Gives `to` one more child and `from`, which has one, one less; all others keep as many. `roots` are nodes that
    /// nothing carries; when `from` is one of them, another one has a child.
    void pass(std::uint32_t from, std::uint32_t to, std::span<const std::uint32_t> roots);

    /// The nodes that were hung since this was last called.
    std::vector<std::uint32_t> take_hung() { return std::exchange(hung_, {}); }

private:
    std::uint32_t child_above(std::uint32_t node, std::uint32_t ancestor) const;

    std::vector<std::uint32_t> parents_;
    std::vector<std::uint32_t> carriers_;
    std::vector<std::vector<std::uint32_t>> children_;
    std::vector<std::uint32_t> hung_;
};

}  // namespace tpx
