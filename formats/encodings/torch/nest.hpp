// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace tpx::torch {

/// Nested dicts and lists that are filled path by path. A node whose keys are the indices 0, 1, 2, ... becomes a list,
/// any other node a dict in the order of insertion.
class Nest {
public:
    /// One step of a path: an index of a list, or a key of a dict, which may be a number.
    struct Key {
        std::string text;
        bool index = false;
        bool number = false;
    };

    /// Throws Error if there is already something at `path`, or a value at a prefix of it.
    void put(std::span<const Key> path, Value value);

    Value build(Document& document) const;

private:
    struct Node;
    struct Child {
        Key key;
        Value value;  // if `nest` is null
        std::unique_ptr<Nest> nest;
    };

    std::vector<Child> children_;
    std::unordered_map<std::string, std::size_t> places_;
};

}  // namespace tpx::torch
