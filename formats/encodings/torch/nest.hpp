// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace tpx::torch {

/// Nested dicts and lists that are filled path by path. A node whose keys are 0, 1, 2, ... is a list, any other one a
/// dict, in the order in which keys came.
class Nest {
public:
    /// One step of a path: a key of a dict, which may be a number, or an index.
    struct Key {
        std::string text;
        bool index = false;
        bool number = false;
    };

    /// Throws Error when something else has this place, or a place on the way to it.
    void put(std::span<const Key> path, Value value);

    Value build(Document& document) const;

private:
    struct Node;
    struct Child {
        Key key;
        Value value;  // when there is no node
        std::unique_ptr<Nest> nest;
    };

    std::vector<Child> children_;
    std::unordered_map<std::string, std::size_t> places_;
};

}  // namespace tpx::torch
