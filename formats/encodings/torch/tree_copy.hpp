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

/// Copies trees into one document, whatever depth they have; what a tree shares stays shared, and nothing points into
/// the trees. They must live as long as the TreeCopy.
class TreeCopy {
public:
    /// What takes the place of an object; nothing: it is copied.
    using Replace = std::function<std::optional<Value>(Value)>;

    /// Objects go along as they are when `classes`; else they become what torch.load(weights_only=True) reads: their
    /// attributes in a dict, the value of an enum, the text of a path.
    TreeCopy(Document& document, bool classes) : document_{document}, classes_{classes} {}

    /// Throws Error when the tree contains itself, or has storages that are no tensor's.
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

/// Tensors of other archives that go into a new one, in storages of their own.
class CarriedTensors {
public:
    /// New storages get `prefix` and a number as keys.
    CarriedTensors(Document& document, Contents& contents, std::string_view prefix = "s")
        : document_{document}, contents_{contents}, prefix_{prefix} {}

    /// `value` of `archive` (null: it has no tensors) as a tensor of the new archive, in C order, when it is a tensor
    /// or an array of NumPy; as a number when it is one of NumPy's. Nothing for all else.
    std::optional<Value> carry(const Archive* archive, Value value);

    /// `value` as a tensor of the new archive, when it is one that add() made with its storage in `storages`.
    std::optional<Value> carry(const Contents& storages, Value value);

    /// A tensor of the new archive with these elements.
    Value add(DType dtype, const Shape& shape, std::string bytes);

private:
    Document& document_;
    Contents& contents_;
    std::string_view prefix_;  // of static life
};

}  // namespace tpx::torch
