// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/archive.hpp"
#include "formats/encodings/torch/archive_writer.hpp"
#include "formats/encodings/torch/value.hpp"

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>

namespace tpx::torch {

/// Copies trees of any depth into one document. Nodes that a tree shares stay shared, and no copy points into a tree.
/// The trees must outlive the TreeCopy.
class TreeCopy {
public:
    /// What replaces an object; unset: the object is copied.
    using Replace = std::function<std::optional<Value>(Value)>;

    /// If `classes` is true, objects are copied with their classes. Otherwise they become values that
    /// torch.load(weights_only=True) reads: a dict of their attributes, the value of an enum, the text of a path.
    TreeCopy(Document& document, bool classes) : document_{document}, classes_{classes} {}

    /// Throws Error if the tree contains itself, or a storage outside a tensor.
    Value copy(Value root, const Replace& replace);

private:
    bool has_copy(Value value) const { return !value.is_node() || copies_.contains(value); }
    Value copy_of(Value value) const { return value.is_node() ? copies_.at(value) : value; }
    std::vector<Value> copies_of(std::span<const Value> items) const;
    std::vector<Entry> copies_of(std::span<const Entry> entries);
    Value build(Value value);
    Value global_copy(Value value);
    Value build_object(Value value);
    Value plain_object(Value value);

    Document& document_;
    bool classes_;
    std::unordered_map<Value, Value, ValueHash> copies_;
};

/// Copies tensors of other archives into a new one, each with its own storage.
class CarriedTensors {
public:
    /// New storages get `prefix` and a number as keys.
    CarriedTensors(Document& document, Contents& contents, std::string_view prefix = "s")
        : document_{document}, contents_{contents}, prefix_{prefix} {}

    /// Copies `value` of `archive` (null: there are no tensors). A tensor or NumPy array becomes a tensor of the new
    /// archive in C order, a NumPy scalar becomes a number. Unset for all other values.
    std::optional<Value> carry(const Archive* archive, Value value);

    /// Copies `value` if it is a tensor that add() made, with its storage in `storages`; otherwise unset.
    std::optional<Value> carry(const Contents& storages, Value value);

    /// A tensor of the new archive with these elements.
    Value add(DType dtype, const Shape& shape, std::string bytes);

private:
    Document& document_;
    Contents& contents_;
    std::string_view prefix_;  // has static storage duration
};

}  // namespace tpx::torch
