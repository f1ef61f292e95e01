// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/addends.hpp"

#include "formats/convert/canonical_pieces.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/merged_weight.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace tpx::formats {
namespace {

/// The addends in `dialect`, by canonical tensor; tensors without one are absent.
std::map<std::string_view, int> addends_of(const Dialect& dialect) {
    std::map<std::string_view, int> addends;
    for (const Rule& rule : dialect.rules)
        if (rule.expression.addend != 0) addends[rule.expression.parts[0]] = rule.expression.addend;
    return addends;
}

/// For each stored tensor: what to add to its values to get the values that `dialect` stores.
std::vector<int> changes_to(const Dialect& dialect, const Reading& reading) {
    const std::map<std::string_view, int> addends = addends_of(dialect);
    std::vector<int> changes(reading.meanings.size());
    for (std::size_t t = 0; t < changes.size(); ++t) {
        const Meaning& meaning = reading.meanings[t];
        if (meaning.rule == nullptr || (meaning.role != Role::weight && meaning.role != Role::master)) continue;
        const auto wanted = addends.find(meaning.rule->expression.parts[0]);
        changes[t] = (wanted == addends.end() ? 0 : wanted->second) - meaning.rule->expression.addend;
    }
    return changes;
}

DType type_of_values(const Tensor& tensor, std::optional<DType> dtype) {
    const auto is_computable = [](DType type) {
        return type == DType::f32 || type == DType::bf16 || type == DType::f16;
    };
    if (!is_computable(tensor.dtype))
        throw failure(
            "is {}, but tpx can add a number to f32, bf16 and f16 values only; first convert it with --dialect keep "
            "and one of these as --dtype",
            name(tensor.dtype));
    return dtype && is_computable(*dtype) && itemsize(*dtype) > itemsize(tensor.dtype) ? *dtype : tensor.dtype;
}

/// For each stored tensor: if it is a weight, the number of its master of the same shape, if any.
std::vector<std::optional<std::uint32_t>> masters_of(const Reading& reading, std::span<const Tensor> tensors) {
    using Parameter = std::tuple<std::string_view, std::optional<int>, std::optional<int>>;
    const auto parameter = [](const Meaning& meaning) {
        return Parameter{meaning.rule->expression.parts[0], meaning.indices.layer, meaning.indices.expert};
    };
    std::map<Parameter, std::uint32_t> masters;
    for (std::uint32_t t = 0; t < tensors.size(); ++t)
        if (reading.meanings[t].rule != nullptr && reading.meanings[t].role == Role::master)
            masters.emplace(parameter(reading.meanings[t]), t);
    std::vector<std::optional<std::uint32_t>> found(tensors.size());
    for (std::uint32_t t = 0; t < tensors.size() && !masters.empty(); ++t) {
        if (reading.meanings[t].rule == nullptr || reading.meanings[t].role != Role::weight) continue;
        const auto master = masters.find(parameter(reading.meanings[t]));
        if (master != masters.end() && tensors[master->second].shape == tensors[t].shape) found[t] = master->second;
    }
    return found;
}

/// Redirects `piece` to a computed file: its values, which are stored as `stored`, plus `addend`, as `dtype`.
void add_to(Catalogue& catalogue, Piece& piece, DType stored, DType dtype, int addend) {
    const auto& coding = catalogue.files[piece.file].coding;
    if (coding && merged_weight(*coding)) throw failure("is changed by the adapter; write the merged model first");
    if (!is_row_major(sizes(piece.box), piece.strides))
        throw failure("is not stored row by row; write it with --format safetensors --dialect keep first");
    MergedWeight made;
    made.base = {piece.file, piece.offset, stored};
    made.rows = 1;
    made.columns = volume(piece.box);
    made.dtype = dtype;
    made.addend = static_cast<float>(addend);
    Coding values = coding_of(made, fmt::format("tensor '{}'", catalogue.tensors[piece.tensor].name));
    const std::filesystem::path path = catalogue.files[piece.file].path;
    piece.file = static_cast<std::uint32_t>(catalogue.files.size());
    piece.offset = 0;
    catalogue.files.push_back({path, values.size, std::make_shared<const Coding>(std::move(values))});
}

/// Adds to `pieces` the pieces of tensor `t` with `addend` added to their values. Computes them from its master, if
/// given, which the optimizer rounds to get the weight.
void change_tensor(Catalogue& catalogue, std::uint32_t t, std::optional<std::uint32_t> master, DType dtype, int addend,
                   std::vector<Piece>& pieces) {
    const std::uint32_t from = master.value_or(t);
    const auto stored = std::ranges::equal_range(catalogue.pieces, from, {}, &Piece::tensor);
    for (Piece piece : std::vector<Piece>{stored.begin(), stored.end()}) {
        piece.tensor = t;
        if (!empty(piece.box)) add_to(catalogue, piece, catalogue.tensors[from].dtype, dtype, addend);
        pieces.push_back(std::move(piece));
    }
}

std::string note_of(const std::vector<Tensor>& tensors, const std::vector<int>& changes, std::string_view dialect) {
    std::size_t count = 0;
    const Tensor* first = nullptr;
    const Tensor* rounded = nullptr;
    int change = 0;
    for (std::size_t t = 0; t < changes.size(); ++t) {
        if (changes[t] == 0) continue;
        if (count++ == 0) first = &tensors[t], change = changes[t];
        if (rounded == nullptr && tensors[t].dtype != DType::f32) rounded = &tensors[t];
    }
    return fmt::format("added {} to the values of {} ('{}'{}), because {} checkpoints store them this way{}", change,
                       counted(count, "tensor"), first->name, count > 1 ? ", ..." : "", dialect,
                       rounded != nullptr ? fmt::format("; rounded to {}", name(rounded->dtype)) : "");
}

}  // namespace

std::string change_addends(Source& source, const Dialect& dialect, std::optional<DType> dtype) {
    const std::vector<int> changes = changes_to(dialect, source.reading);
    if (std::ranges::all_of(changes, [](int change) { return change == 0; })) return {};
    locate_all(source.checkpoint);
    Catalogue& catalogue = source.checkpoint.catalogue;
    const auto masters = masters_of(source.reading, catalogue.tensors);
    std::vector<DType> dtypes;
    std::vector<Piece> pieces;
    std::size_t next = 0;  // piece
    for (std::uint32_t t = 0; t < catalogue.tensors.size(); ++t) {
        const Tensor& tensor = catalogue.tensors[t];
        const std::size_t begin = next;
        while (next < catalogue.pieces.size() && catalogue.pieces[next].tensor == t) ++next;
        dtypes.push_back(tensor.dtype);
        if (changes[t] == 0) {
            pieces.insert(pieces.end(), catalogue.pieces.begin() + begin, catalogue.pieces.begin() + next);
            continue;
        }
        in_context([&] { return fmt::format("tensor '{}'", tensor.name); },
                   [&] {
                       dtypes[t] = type_of_values(tensor, dtype);
                       change_tensor(catalogue, t, masters[t], dtypes[t], changes[t], pieces);
                   });
    }
    catalogue.pieces = std::move(pieces);
    // These are parallel to the former pieces, which locate_all() has found.
    source.checkpoint.archives.clear();
    source.checkpoint.archive_slices.clear();
    source.checkpoint.crcs.clear();
    for (std::size_t t = 0; t < dtypes.size(); ++t) catalogue.tensors[t].dtype = dtypes[t];
    source.has_computed_values = true;
    return note_of(catalogue.tensors, changes, dialect.name);
}

}  // namespace tpx::formats
