// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"
#include "lib/core/box.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tpx::formats {

struct StateChild;

/// A value that a checkpoint contains in addition to its tensors, in a form for people and programs: classes are names,
/// nothing is shared, nothing contains itself, and it is at most `deepest` levels deep.
struct StateNode {
    enum class Kind : std::uint8_t {
        none,
        boolean,   ///< text "True" or "False"
        integer,   ///< text: decimal digits, of any length
        real,      ///< text: the shortest that reads back as the same number, or "nan", "inf", "-inf"
        string,    ///< text
        bytes,     ///< text: the bytes themselves if they are few; count, digest
        symbol,    ///< text: the name of a class, function or dtype
        array,     ///< a tensor or a NumPy array: dtype, shape; text, count and digest as for bytes, if it was read
        tensors,   ///< `count` tensors that are listed elsewhere, `bytes` bytes in total
        sequence,  ///< children without keys
        mapping,   ///< children with keys
        same,      ///< text: the path where the same value was described first
        deep,      ///< text: what it is; too deep to be described
    };
    static constexpr int deepest = 64;
    static constexpr std::uint64_t few_bytes = 1 << 16;

    Kind kind = Kind::none;
    std::string type;  ///< a class, or "tuple", "set", "tensor", ...; empty for None, numbers, text, lists and dicts
    std::string text;
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
    std::string dtype;
    Shape shape;
    std::string digest;      ///< as tpx verify prints it; empty: not read
    bool plain_keys = true;  ///< of a mapping: its keys are text or ints, and no two are spelled alike
    std::vector<StateChild> children;

    bool is_leaf() const { return kind != Kind::sequence && kind != Kind::mapping; }
};

struct StateChild {
    std::string key;
    StateNode node;
};

/// How tensors in a tree are treated.
enum class TensorTreatment : std::uint8_t {
    state,      ///< they are state like other values, and are read
    catalogue,  ///< they are the checkpoint's tensors: neighboring ones are only counted
};

/// `value` of `archive` as a tree; without an archive (null), tensors are not read. `path` is the name of `value`.
StateNode make_state_node(torch::Value value, const torch::Archive* archive, TensorTreatment tensors,
                          const std::string& path);

/// `bytes` as a tree of one node.
StateNode make_bytes_node(std::string bytes);

}  // namespace tpx::formats
