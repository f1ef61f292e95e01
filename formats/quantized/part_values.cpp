// SPDX-License-Identifier: Apache-2.0
#include "formats/quantized/part_values.hpp"

#include "formats/quantized/stored_parts.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <map>
#include <span>

namespace tpx::formats {
namespace {

using PartAxes = std::vector<StoredAxis>;

std::span<const Piece> pieces_of_tensor(const Catalogue& catalogue, std::uint32_t tensor) {
    const auto found = std::ranges::equal_range(catalogue.pieces, tensor, {}, &Piece::tensor);
    return {found.begin(), found.end()};
}

/// Whether the elements of `box`, which is in `piece`, follow each other in its file.
bool is_dense(const Piece& piece, const Box& box) {
    const Strides expected = row_major(sizes(box));
    for (int k = 0; k < box.size(); ++k)
        if (box[k].size() > 1 && piece.strides[k] != expected[k]) return false;
    return true;
}

/// Computes the values of the parts of one weight.
class Parts {
public:
    Parts(const Catalogue& catalogue, const QuantizedTensor& weight)
        : catalogue_{catalogue},
          weight_{weight},
          axes_{stored_parts(catalogue, weight, weight.scaled.groups != nullptr)},
          order_{matrix_axes(weight)} {}

    PartValues of(const Piece& codes) const {
        PartValues made{.box = box_of(codes), .scaled = weight_.scaled, .rank = codes.rank};
        if (!is_dense(codes, codes.box)) throw failure("its codes are not stored row by row");
        made.scaled.codes = {codes.file, codes.offset, codes_tensor().dtype};
        set_sizes(codes, made);
        std::size_t next = 1;  // source
        made.scaled.scales = part_of(next++, codes, made.box);
        if (made.scaled.zeros) made.scaled.zeros = part_of(next, codes, made.box);
        return made;
    }

private:
    const Tensor& codes_tensor() const { return catalogue_.tensors[weight_.codes]; }

    static Error ends_within_block() {
        return failure("is split within a block of codes that share a scale; join it first with reshard --to tp=1");
    }

    /// The part of the weight that a piece of codes has.
    Box box_of(const Piece& codes) const {
        Box box = whole(weight_.shape);
        const PartAxes& axes = axes_.at(weight_.codes);
        for (int k = 0; k < codes.box.size(); ++k) {
            const StoredAxis& axis = axes[static_cast<std::size_t>(k)];
            const Interval part = codes.box[k];
            if (part == Interval{0, codes_tensor().shape[k]}) continue;
            if (axis.axis < 0 || part.begin % axis.stored != 0 || part.end % axis.stored != 0)
                throw ends_within_block();
            box[axis.axis] = {part.begin / axis.stored * axis.unit, part.end / axis.stored * axis.unit};
        }
        return box;
    }

    /// Sets the sizes of the matrices of a part, and its strides.
    void set_sizes(const Piece& codes, PartValues& made) const {
        const int count = weight_.shape.size();
        made.strides = weight_.strides;
        Index next = 1;
        for (auto axis = order_.rbegin(); axis != order_.rend(); ++axis) {
            made.strides[*axis] = next;
            next *= made.box[*axis].size();
        }
        ScaledCodes& scaled = made.scaled;
        const int column_axis = count > 0 ? order_.back() : -1;
        const Index columns = column_axis < 0 ? 1 : made.box[column_axis].size();
        const Index rows = columns == 0 ? 0 : next / columns;
        const int row_axis = count > 1 ? order_[static_cast<std::size_t>(count) - 2] : -1;
        const bool is_of_all = scaled.matrix_rows == scaled.rows;
        if (row_axis >= 0 && scaled.groups && made.box[row_axis].size() != weight_.shape[row_axis])
            throw failure("is split along groups that are numbered in g_idx; join it first with reshard --to tp=1");
        if (is_of_all)
            scaled.matrix_rows = std::max<Index>(rows, 1);
        else if (row_axis >= 0 && scaled.matrix_rows == weight_.shape[row_axis])
            scaled.matrix_rows = std::max<Index>(made.box[row_axis].size(), 1);
        scaled.rows = rows;
        scaled.columns = columns;
        const PartAxes& axes = axes_.at(weight_.codes);
        Index all = 1, own = 1;  // stored numbers of a row
        for (int k = 0; k < codes.box.size(); ++k) {
            const int axis = axes[static_cast<std::size_t>(k)].axis;
            if (axis >= 0 && axis != column_axis) continue;
            all *= codes_tensor().shape[k];
            own *= codes.box[k].size();
        }
        if (all > 0)
            scaled.row_bytes = scaled.row_bytes / static_cast<std::uint64_t>(all) * static_cast<std::uint64_t>(own);
    }

    /// Where the scales or zeros, source `number` of the weight, of its part `box` are stored.
    ScaledCodes::Part part_of(std::size_t number, const Piece& codes, const Box& box) const {
        const std::uint32_t t = weight_.sources[number].tensor;
        const Tensor& tensor = catalogue_.tensors[t];
        const Box needed = needed_of(t, box);
        const Piece* best = nullptr;
        for (const Piece& piece : pieces_of_tensor(catalogue_, t)) {
            if (!contains(piece.box, needed) || !is_dense(piece, needed)) continue;
            if (best == nullptr || piece.rank == codes.rank) best = &piece;
        }
        if (best == nullptr)
            throw failure("'{}' is split otherwise than the codes; join it first with reshard --to tp=1", tensor.name);
        Index first = 0;
        for (int k = 0; k < needed.size(); ++k) first += (needed[k].begin - best->box[k].begin) * best->strides[k];
        return {best->file, best->offset + static_cast<std::uint64_t>(first * itemsize(tensor.dtype)), tensor.dtype};
    }

    /// The scales or zeros in tensor `t` that belong to the part `box` of the weight.
    Box needed_of(std::uint32_t t, const Box& box) const {
        Box needed = whole(catalogue_.tensors[t].shape);
        const PartAxes& axes = axes_.at(t);
        for (int k = 0; k < needed.size(); ++k) {
            const StoredAxis& axis = axes[static_cast<std::size_t>(k)];
            if (axis.axis < 0 || box[axis.axis] == Interval{0, weight_.shape[axis.axis]}) continue;
            const Interval part = box[axis.axis];
            if (part.begin % axis.unit != 0) throw ends_within_block();
            needed[k] = {part.begin / axis.unit * axis.stored, (part.end + axis.unit - 1) / axis.unit * axis.stored};
        }
        return needed;
    }

    const Catalogue& catalogue_;
    const QuantizedTensor& weight_;
    std::map<std::uint32_t, PartAxes> axes_;  // of each stored tensor
    std::vector<int> order_;                  // of the weight's axes in the stored matrices
};

}  // namespace

std::vector<PartValues> values_in(const Catalogue& catalogue, const QuantizedTensor& weight) {
    const std::span<const Piece> codes = pieces_of_tensor(catalogue, weight.codes);
    const bool is_one = codes.size() == 1 && codes[0].box == whole(catalogue.tensors[weight.codes].shape);
    if (is_one && codes[0].strides == row_major(sizes(codes[0].box)))
        return {{whole(weight.shape), weight.strides, weight.scaled, codes[0].rank}};
    const Parts parts{catalogue, weight};
    std::vector<PartValues> values;
    for (const Piece& piece : codes)
        if (!empty(piece.box)) values.push_back(parts.of(piece));
    return values;
}

}  // namespace tpx::formats
