// SPDX-License-Identifier: Apache-2.0
#include "formats/addends.hpp"

#include "formats/canonical_pieces.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/merged_weight.hpp"

#include <algorithm>
#include <map>

namespace tpx::formats {
namespace {

/// The addends of canonical tensors that have one in `dialect`.
std::map<std::string_view, int> addends_of(const Dialect& dialect) {
    std::map<std::string_view, int> addends;
    for (const Rule& rule : dialect.rules)
        if (rule.expression.addend != 0) addends[rule.expression.parts[0]] = rule.expression.addend;
    return addends;
}

/// By stored tensor: what is added to its values so that they are those that `dialect` stores.
std::vector<int> changes_to(const Dialect& dialect, const Reading& reading) {
    const std::map<std::string_view, int> addends = addends_of(dialect);
    std::vector<int> changes(reading.meanings.size());
    for (std::size_t t = 0; t < changes.size(); ++t) {
        const Meaning& meaning = reading.meanings[t];
        if (meaning.rule == nullptr || (meaning.role != "weight" && meaning.role != "master")) continue;
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
        throw failure("is {}; a number can be added to values of f32, bf16 and f16 only", name(tensor.dtype));
    return dtype && is_computable(*dtype) && itemsize(*dtype) > itemsize(tensor.dtype) ? *dtype : tensor.dtype;
}

/// Makes `piece` of a tensor of type `stored` a file of its values plus `addend`.
void add_to(Catalogue& catalogue, Piece& piece, DType stored, DType dtype, int addend) {
    const std::string& tensor = catalogue.tensors[piece.tensor].name;
    const auto& coding = catalogue.files[piece.file].coding;
    if (coding && merged_weight(*coding)) throw failure("is changed by the adapter; write the merged model first");
    if (piece.strides != row_major(sizes(piece.box))) throw failure("is not stored row by row");
    MergedWeight made;
    made.base = {piece.file, piece.offset, stored};
    made.rows = 1;
    made.columns = volume(piece.box);
    made.dtype = dtype;
    made.addend = static_cast<float>(addend);
    Coding values = coding_of(made, fmt::format("tensor '{}'", tensor));
    const std::filesystem::path path = catalogue.files[piece.file].path;
    piece.file = static_cast<std::uint32_t>(catalogue.files.size());
    piece.offset = 0;
    catalogue.files.push_back({path, values.size, std::make_shared<const Coding>(std::move(values))});
}

}  // namespace

std::string change_addends(Source& source, const Dialect& dialect, std::optional<DType> dtype) {
    const std::vector<int> changes = changes_to(dialect, source.reading);
    const auto count = static_cast<std::size_t>(std::ranges::count_if(changes, [](int change) { return change != 0; }));
    if (count == 0) return {};
    locate_all(source.checkpoint);
    Catalogue& catalogue = source.checkpoint.catalogue;
    for (Piece& piece : catalogue.pieces) {
        const int change = changes[piece.tensor];
        if (change == 0 || empty(piece.box)) continue;
        const Tensor& tensor = catalogue.tensors[piece.tensor];
        in_context([&] { return fmt::format("tensor '{}'", tensor.name); },
                   [&] { add_to(catalogue, piece, tensor.dtype, type_of_values(tensor, dtype), change); });
    }
    for (std::size_t t = 0; t < changes.size(); ++t)
        if (changes[t] != 0) catalogue.tensors[t].dtype = type_of_values(catalogue.tensors[t], dtype);
    source.has_computed_values = true;
    const auto first = static_cast<std::size_t>(std::ranges::find_if(changes, [](int change) { return change != 0; }) -
                                                changes.begin());
    const Tensor& example = catalogue.tensors[first];
    return fmt::format("added {} to the values of {} ('{}'{}), because {} checkpoints store them so{}", changes[first],
                       counted(count, "tensor"), example.name, count > 1 ? ", ..." : "", dialect.name,
                       example.dtype == DType::f32 ? "" : fmt::format("; rounded to {}", name(example.dtype)));
}

}  // namespace tpx::formats
