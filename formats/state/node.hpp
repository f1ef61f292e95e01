// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"
#include "lib/core/box.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tpx::formats {

struct StateChild;

/// A value that a checkpoint keeps beside its tensors, for people and programs: classes are names, nothing is shared,
/// nothing contains itself, and it is at most `deepest` levels deep.
struct StateNode {
    enum class Kind : std::uint8_t {
        none,
        boolean,   ///< text "True" or "False"
        integer,   ///< text: decimal digits, of any length
        real,      ///< text: as short as it can be read back, or "nan", "inf", "-inf"
        string,    ///< text
        bytes,     ///< text: the bytes themselves when they are few; count, digest
        symbol,    ///< text: the name of a class, function or dtype
        array,     ///< a tensor or a NumPy array: dtype, shape; text, count and digest as of bytes, where it was read
        tensors,   ///< `count` tensors that are listed elsewhere, `bytes` in all
        sequence,  ///< children without keys
        mapping,   ///< children with keys
        same,      ///< text: the path of an equal one, told before
        deep,      ///< text: what it is; too deep to be told
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
    std::string digest;      ///< as tpx verify tells it; empty: not read
    bool plain_keys = true;  ///< of a mapping: its keys are text or ints, and no two are spelt alike
    std::vector<StateChild> children;

    bool is_leaf() const { return kind != Kind::sequence && kind != Kind::mapping; }
};

struct StateChild {
    std::string key;
    StateNode node;
};

/// What becomes of tensors in a tree.
enum class TensorsIn : std::uint8_t {
    state,      ///< they are state like all else, and are read
    catalogue,  ///< they are the checkpoint's tensors: told in numbers where they stand together
};

/// `value` of `archive` as a tree; null archive: it holds no tensors that can be read. `path` is what it is called.
StateNode make_state_node(torch::Value value, const torch::Archive* archive, TensorsIn tensors,
                          const std::string& path);

/// `bytes` as a tree of one node.
StateNode make_bytes_node(std::string bytes);

}  // namespace tpx::formats
