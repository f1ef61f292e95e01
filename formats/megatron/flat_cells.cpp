// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/flat_cells.hpp"

#include "formats/megatron/flat_cut.hpp"
#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace tpx::formats::megatron {
namespace {

constexpr std::string_view chain = "chained_";
constexpr std::string_view state_prefix = "optimizer.state.";

/// NAME, the model's tensor, of optimizer tensor "optimizer.state.exp_avg.NAME"; empty for others.
std::string_view parameter_in(std::string_view name) {
    if (!name.starts_with(state_prefix)) return "";
    name.remove_prefix(state_prefix.size());
    const std::size_t dot = name.find('.');
    return dot == name.npos ? "" : name.substr(dot + 1);
}

/// The shape of one cell of a tensor of shape `model`; all axes of `stored` but the last count cells. Unset if the
/// shapes do not match.
std::optional<Shape> cell_of(const Shape& stored, const Shape& model) {
    if (stored.size() != model.size() + 1 || model.size() + 1 > max_rank) return std::nullopt;
    Shape cell;
    for (int axis = 0; axis < model.size(); ++axis) {
        if (stored[axis] < 1 || model[axis] % stored[axis] != 0) return std::nullopt;
        cell.push_back(model[axis] / stored[axis]);
    }
    return volume(cell) == stored[model.size()] ? std::optional{cell} : std::nullopt;
}

class CellUnpacker {
public:
    explicit CellUnpacker(Checkpoint& checkpoint) : checkpoint_{checkpoint}, catalogue_{checkpoint.catalogue} {}

    void run() {
        if (!find_cells()) return;
        for (std::size_t p = 0; p < catalogue_.pieces.size(); ++p) add(p);
        std::vector<std::size_t> order(pieces_.size());
        for (std::size_t p = 0; p < order.size(); ++p) order[p] = p;
        std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
            return std::tie(pieces_[a].tensor, pieces_[a].box, pieces_[a].rank) <
                   std::tie(pieces_[b].tensor, pieces_[b].box, pieces_[b].rank);
        });
        catalogue_.pieces.clear();
        checkpoint_.archives.clear();
        for (std::size_t p : order) {
            catalogue_.pieces.push_back(pieces_[p]);
            checkpoint_.archives.push_back(archives_[p]);
            checkpoint_.archive_slices.push_back(insides_[p]);
        }
        find_holes(catalogue_);
    }

private:
    bool find_cells() {
        std::unordered_map<std::string_view, Shape> shapes;
        for (const Tensor& tensor : catalogue_.tensors) shapes.emplace(tensor.name, tensor.shape);
        cells_.resize(catalogue_.tensors.size());
        bool any = false;
        for (std::size_t t = 0; t < catalogue_.tensors.size(); ++t) {
            Tensor& tensor = catalogue_.tensors[t];
            const auto model = shapes.find(parameter_in(tensor.name));
            if (model == shapes.end() || tensor.shape == model->second) continue;
            cells_[t] = cell_of(tensor.shape, model->second);
            if (cells_[t]) tensor.shape = model->second;
            any |= cells_[t].has_value();
        }
        return any;
    }

    /// Adds the boxes of piece `p`, which is a range of the elements of one cell.
    void add(std::size_t p) {
        const Piece& piece = catalogue_.pieces[p];
        const std::optional<Shape>& cell = cells_[piece.tensor];
        if (!cell) return keep(piece, checkpoint_.archives[p], {});
        Box box;
        for (int axis = 0; axis < cell->size(); ++axis) {
            if (piece.box[axis].size() != 1)
                throw failure("tensor '{}': a piece has {} cells", catalogue_.tensors[piece.tensor].name,
                              piece.box[axis].size());
            const Index begin = piece.box[axis].begin * (*cell)[axis];
            box.push_back({begin, begin + (*cell)[axis]});
        }
        const Interval range = piece.box[cell->size()];
        const Strides strides = row_major(*cell);
        for (const FlatBox& cut : cut_flat(box, strides, 0, range)) {
            Piece part = piece;
            part.box = cut.box;
            part.strides = strides;
            const Index skipped = cut.begin - range.begin;
            const std::uint64_t archive = checkpoint_.archives[p];
            if (archive == 0)  // raw bytes
                part.offset += static_cast<std::uint64_t>(skipped * itemsize(catalogue_.tensors[piece.tensor].dtype));
            keep(part, archive, archive == 0 ? ArchiveSlice{} : ArchiveSlice{range.size(), skipped});
        }
    }

    void keep(const Piece& piece, std::uint64_t archive, ArchiveSlice inside) {
        pieces_.push_back(piece);
        archives_.push_back(archive);
        insides_.push_back(inside);
    }

    Checkpoint& checkpoint_;
    Catalogue& catalogue_;
    std::vector<std::optional<Shape>> cells_;  // of each tensor; unset if it has the shape of the model's tensor
    std::vector<Piece> pieces_;
    std::vector<std::uint64_t> archives_;
    std::vector<ArchiveSlice> insides_;
};

}  // namespace

void drop_chain_prefixes(Checkpoint& checkpoint) {
    for (Tensor& tensor : checkpoint.catalogue.tensors) {
        const std::size_t dot = tensor.name.find('.');
        if (!tensor.name.starts_with(chain) || dot == tensor.name.npos) continue;
        if (std::string_view{tensor.name}.substr(dot + 1).starts_with(state_prefix)) tensor.name.erase(0, dot + 1);
    }
    std::set<std::string_view> names;
    for (const Tensor& tensor : checkpoint.catalogue.tensors) {
        if (!names.insert(tensor.name).second) throw failure("tensor '{}': appears twice", tensor.name);
    }
}

void unpack_cells(Checkpoint& checkpoint) { CellUnpacker{checkpoint}.run(); }

}  // namespace tpx::formats::megatron
