// SPDX-License-Identifier: Apache-2.0
#include "formats/adapters/merge_adapter.hpp"

#include "formats/adapters/adapter.hpp"
#include "formats/adapters/check_mergeable.hpp"
#include "formats/adapters/saved_names.hpp"
#include "formats/adapters/split_stacked_weights.hpp"
#include "formats/adapters/untie_output_layer.hpp"
#include "formats/quantized/quantized.hpp"
#include "lib/core/error.hpp"
#include "lib/core/merged_weight.hpp"
#include "lib/core/path.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;

/// `rows` * `columns` stored numbers as values of `dtype`.
MergedWeight without_factors(MergedWeight::Part base, Index rows, Index columns, DType dtype) {
    MergedWeight made;
    made.base = base;
    made.rows = rows;
    made.columns = columns;
    made.dtype = dtype;
    return made;
}

bool is_mergeable(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16; }

/// Replaces weights of the base by merged weights.
class Merge {
public:
    Merge(Source& source, const Adapter& adapter)
        : source_{source}, catalogue_{source.checkpoint.catalogue}, adapter_{adapter}, replaced_{adapter.replaced} {
        for (std::uint32_t t = 0; t < catalogue_.tensors.size(); ++t) numbers_.emplace(catalogue_.tensors[t].name, t);
        for (std::uint32_t p = 0; p < adapter.checkpoint.catalogue.pieces.size(); ++p)
            pieces_.emplace(adapter.checkpoint.catalogue.pieces[p].tensor, p);
        file_ = static_cast<std::uint32_t>(catalogue_.files.size());
        const Catalogue& own = adapter.checkpoint.catalogue;
        catalogue_.files.push_back({fs::absolute(own.path(0)).lexically_normal(), own.files[0].size});
    }

    void run() {
        const std::vector<AdaptedWeight> weights = split_stacked_weights(adapter_, source_);
        const SavedNames names{source_};
        for (ReplacedTensor& replaced : replaced_) replaced.name = names.of(replaced.name);
        check_target_names(weights);
        for (const ReplacedTensor& replaced : replaced_) in_tensor(replaced.tensor, [&] { replace(replaced); });
        for (const AdaptedWeight& weight : as_stored(weights)) in_tensor(*weight.a, [&] { merge(weight); });
        if (experts_.empty()) return;
        catalogue_.pieces.insert(catalogue_.pieces.end(), experts_.begin(), experts_.end());
        std::ranges::stable_sort(catalogue_.pieces, {}, &Piece::tensor);
    }

private:
    template <class Body>
    void in_tensor(std::uint32_t tensor, Body&& body) const {
        in_context([&] { return fmt::format("tensor '{}'", adapter_.tensor(tensor).name); }, body);
    }

    /// Requires that the base has every tensor that the adapter changes.
    void check_target_names(const std::vector<AdaptedWeight>& weights) const {
        std::vector<std::string_view> missing;
        for (const AdaptedWeight& weight : weights)
            if (!numbers_.contains(weight.name)) missing.push_back(weight.name);
        for (const ReplacedTensor& replaced : replaced_)
            if (!numbers_.contains(replaced.name)) missing.push_back(replaced.name);
        if (missing.empty()) return;
        const Dialect* dialect = source_.reading.dialect;
        const std::string base = adapter_.settings.base.empty()
                                     ? std::string{}
                                     : fmt::format("; the adapter was trained on '{}'", adapter_.settings.base);
        throw failure(
            "is for another base: {} lacks {} of the {} tensors that the adapter changes, such as '{}'{}{}",
            catalogue_.directory.string(), missing.size(), weights.size() + adapter_.replaced.size(), missing[0], base,
            dialect && dialect->name != "hf"
                ? fmt::format(", and the base has {} names: convert it with --dialect hf first", dialect->name)
                : "");
    }

    /// The adapter's weights, transposed where the base stores them as [in, out]. PEFT decides this per module, and
    /// fan_in_fan_out records only its last decision; shapes decide unless a weight is square.
    std::vector<AdaptedWeight> as_stored(std::vector<AdaptedWeight> weights) const {
        const AdaptedWeight* square = nullptr;
        const AdaptedWeight* contradicting = nullptr;
        for (AdaptedWeight& weight : weights) {
            const Shape expected = adapter_.shape_of(weight);
            if (weight.embedding || weight.stacked()) continue;
            if (expected[0] == expected[1]) {
                square = &weight;
            } else if (catalogue_.tensors[numbers_.at(weight.name)].shape == Shape{expected[1], expected[0]}) {
                weight.transposed = !weight.transposed;
                contradicting = &weight;
            }
        }
        if (square && contradicting)
            throw failure(
                "{}: fan_in_fan_out={} contradicts the shape of '{}', so it is unknown whether the square '{}' is "
                "transposed; merge with PEFT (merge_and_unload)",
                adapter_config_name, adapter_.settings.transposed, contradicting->name, square->name);
        return weights;
    }

    /// The number of the base's tensor `name`, which must have `shape`.
    std::uint32_t tensor_of(const std::string& name, const Shape& shape) const {
        const std::uint32_t number = numbers_.at(name);
        const Tensor& tensor = catalogue_.tensors[number];
        if (tensor.shape != shape)
            throw failure("is for a base tensor of shape {}, but '{}' in {} has shape {}", to_string(shape), name,
                          catalogue_.directory.string(), to_string(tensor.shape));
        if (!is_mergeable(tensor.dtype))
            throw failure("base tensor '{}' is {}; only f32, bf16 and f16 can be merged", name,
                          tpx::name(tensor.dtype));
        return number;
    }

    MergedWeight::Part part_of(std::uint32_t tensor) const {
        const DType dtype = adapter_.tensor(tensor).dtype;
        if (!is_mergeable(dtype)) throw failure("is {}; only f32, bf16 and f16 can be merged", name(dtype));
        return {file_, adapter_.checkpoint.catalogue.pieces[pieces_.at(tensor)].offset, dtype};
    }

    /// All pieces of the base's tensor `number`.
    std::span<Piece> pieces_of(std::uint32_t number) {
        const auto own = std::ranges::equal_range(catalogue_.pieces, number, {}, &Piece::tensor);
        return {own.begin(), own.end()};
    }

    /// Adds a file of the values of `weight`, which belong to the base's tensor `number`, and returns its number.
    std::uint32_t add_file(const MergedWeight& weight, std::uint32_t number) {
        Coding coding = coding_of(weight, fmt::format("tensor '{}'", catalogue_.tensors[number].name));
        const fs::path path = catalogue_.files[weight.base.file].path;
        catalogue_.files.push_back({path, coding.size, std::make_shared<const Coding>(std::move(coding))});
        return static_cast<std::uint32_t>(catalogue_.files.size() - 1);
    }

    void merge(const AdaptedWeight& weight) {
        const Shape shape =
            weight.stacked() ? catalogue_.tensors[numbers_.at(weight.name)].shape : adapter_.shape_of(weight);
        const std::uint32_t number = tensor_of(weight.name, shape);
        if (weight.magnitude && (weight.transposed || weight.stacked()))
            throw failure("DoRA of embeddings, transposed weights (fan_in_fan_out) and experts cannot be merged");
        std::vector<Piece> split;
        for (Piece& piece : pieces_of(number)) {
            if (empty(piece.box)) continue;
            if (piece.strides != row_major(sizes(piece.box)))
                throw failure("base tensor '{}' is not stored row by row; convert the base to safetensors first",
                              weight.name);
            if (shape.size() == 2)
                merge_matrix(weight, number, piece);
            else
                split_by_expert(weight, number, piece, split);
        }
        if (split.empty()) return;
        std::erase_if(catalogue_.pieces, [&](const Piece& piece) { return piece.tensor == number; });
        experts_.insert(experts_.end(), split.begin(), split.end());
    }

    /// Makes pieces of single experts of `piece`, which holds several, and merges each of them.
    void split_by_expert(AdaptedWeight weight, std::uint32_t number, const Piece& piece, std::vector<Piece>& split) {
        const Interval experts = piece.box[0];
        for (weight.expert = experts.begin; weight.expert < experts.end; ++weight.expert) {
            Piece one = piece;
            one.box[0] = {weight.expert, weight.expert + 1};
            one.strides = row_major(sizes(one.box));
            one.offset += static_cast<std::uint64_t>((weight.expert - experts.begin) * volume(one.box) *
                                                     itemsize(catalogue_.tensors[number].dtype));
            merge_matrix(weight, number, one);
            split.push_back(one);
        }
    }

    /// Makes `piece` one of merged values; its last two axes are rows and columns.
    void merge_matrix(const AdaptedWeight& weight, std::uint32_t number, Piece& piece) {
        const Interval rows = piece.box[piece.box.size() - 2];
        const Interval columns = piece.box[piece.box.size() - 1];
        const Index in = adapter_.tensor(*weight.a).shape[1];
        const DType dtype = catalogue_.tensors[number].dtype;
        MergedWeight made = without_factors({piece.file, piece.offset, dtype}, rows.size(), columns.size(), dtype);
        made.rank = weight.rank;
        made.scale = static_cast<float>(weight.scale);
        made.rounds_delta = weight.embedding || weight.targets_parameter;
        const auto from = [](MergedWeight::Part part, Index first) {
            part.offset += static_cast<std::uint64_t>(first) * static_cast<std::uint64_t>(itemsize(part.dtype));
            return part;
        };
        const MergedWeight::Part a = from(part_of(*weight.a), weight.expert * weight.rank * in);
        const Index row = weight.rank * weight.experts;  // of B
        const MergedWeight::Part b = from(part_of(*weight.b), weight.expert);
        const Index first = weight.first_row + rows.begin;
        // The sum over k of B[out, k] * A[k, in], or its transpose.
        if (weight.transposed) {
            made.left = {from(a, first), 1, in};
            made.right = {from(b, columns.begin * row), weight.experts, row};
        } else {
            made.left = {from(b, first * row), row, weight.experts};
            made.right = {from(a, columns.begin), in, 1};
        }
        if (weight.magnitude) {
            if (columns != Interval{0, in}) throw split_columns(weight);
            made.magnitudes = from(part_of(*weight.magnitude), rows.begin);
        }
        piece.file = add_file(made, number);
        piece.offset = 0;
    }

    static Error split_columns(const AdaptedWeight& weight) {
        return failure(
            "base tensor '{}' is split by columns, and DoRA needs whole rows; run tpx reshard --to tp=1 on the base "
            "first",
            weight.name);
    }

    /// Replaces a tensor of the base; PEFT casts the values to the dtype of this tensor.
    void replace(const ReplacedTensor& replaced) {
        const Tensor& own = adapter_.tensor(replaced.tensor);
        const std::uint32_t number = tensor_of(replaced.name, own.shape);
        const DType dtype = catalogue_.tensors[number].dtype;
        MergedWeight::Part part = part_of(replaced.tensor);
        if (part.dtype != dtype) {
            if (std::ranges::find(adapter_.weights, replaced.name, &AdaptedWeight::name) != adapter_.weights.end())
                throw failure(
                    "is {}, but base tensor '{}' is {}: an adapted weight can only be replaced in its own dtype",
                    name(part.dtype), replaced.name, name(dtype));
            part = {add_file(without_factors(part, 1, volume(own.shape), dtype), number), 0, dtype};
        }
        for (Piece& piece : pieces_of(number)) {
            piece.file = part.file;
            piece.strides = row_major(own.shape);
            Index first = 0;
            for (int k = 0; k < own.shape.size(); ++k) first += piece.box[k].begin * piece.strides[k];
            piece.offset = part.offset + static_cast<std::uint64_t>(first * itemsize(dtype));
        }
    }

    Source& source_;
    Catalogue& catalogue_;
    const Adapter& adapter_;
    std::vector<ReplacedTensor> replaced_;                     // under the base's names
    std::unordered_map<std::string, std::uint32_t> numbers_;   // of the base's tensors
    std::unordered_map<std::uint32_t, std::uint32_t> pieces_;  // of the adapter's tensors
    std::vector<Piece> experts_;                               // that replace pieces of several experts
    std::uint32_t file_ = 0;                                   // number of the adapter's file in the base's catalogue
};

}  // namespace

std::string merge_adapter(Source& source, const fs::path& directory) {
    reject_bridge_adapter(directory);
    Adapter adapter = read_adapter(directory);
    in_context([&] { return directory.string(); },
               [&] {
                   check_mergeable(source, adapter);
                   dequantize(source, {});
                   untie_output_layer(source, adapter);
                   Merge{source, adapter}.run();
               });
    // If the adapter were copied to the output, frameworks would apply it to the merged weights.
    source.checkpoint.adapter_files.clear();
    std::erase(source.checkpoint.companions, fs::path{adapter_config_name});
    return fmt::format("merged {}: {}", directory.string(), describe(adapter));
}

}  // namespace tpx::formats
