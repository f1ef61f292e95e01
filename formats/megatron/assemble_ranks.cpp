// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/value.hpp"
#include "formats/megatron/legacy.hpp"
#include "formats/megatron/rank_cuts.hpp"
#include "formats/megatron/rank_grid.hpp"
#include "lib/core/coverage.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/dims.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace tpx::formats {
namespace {

using namespace megatron;

/// A rank's tensor and its place in the whole model.
struct Placed {
    const RankDirectory* directory = nullptr;
    const RankTensor* tensor = nullptr;
    RankName name;          ///< layer and expert count over the whole model; of grouped experts, the first
    Shape shape;            ///< of one expert, as [out, in]
    Strides strides;        ///< of one expert, too
    Index expert_step = 0;  ///< elements from one grouped expert to the next
    Index experts = 1;      ///< number of grouped experts
};

std::string role_prefix(Role role, bool distributed) {
    if (role == Role::weight) return "";
    if (role == Role::master) return distributed ? "optimizer.state.param." : "optimizer.state.fp32_param.";
    return fmt::format("optimizer.state.{}.", role);
}

/// What the ranks' parts of one stored tensor have in common.
struct Group {
    std::string name;  ///< as stored
    DType dtype = DType::f32;
    Shape local;        ///< of one layer and expert
    Index layers = 0;   ///< size of the leading axis of layers; 0: none
    Index experts = 0;  ///< size of the next axis, of experts; 0: none
    int tp = 1;
    std::vector<const Placed*> parts;

    int leading() const { return (layers > 0 ? 1 : 0) + (experts > 0 ? 1 : 0); }
    Shape with_leading(const Shape& shape) const {
        Shape all;
        if (layers > 0) all.push_back(layers);
        if (experts > 0) all.push_back(experts);
        for (Index size : shape) all.push_back(size);
        return all;
    }
};

class Assembly {
public:
    Assembly(Checkpoint& checkpoint, const Config& config)
        : checkpoint_{checkpoint}, files_{*checkpoint.rank_files}, config_{config} {}

    void run(const Families& families) {
        find_offsets();
        for (const RankDirectory& directory : files_.directories) {
            for (const RankTensor& tensor : directory.tensors)
                in_context([&] { return where(directory, tensor); }, [&] { place(directory, tensor); });
        }
        stacked_ = may_stack() && layers_are_alike();
        for (const Placed& placed : placed_)
            in_context([&] { return where(*placed.directory, *placed.tensor); }, [&] { add_to_group(placed); });
        make_catalogue(families);
    }

private:
    std::string where(const RankDirectory& directory, const RankTensor& tensor) const {
        return fmt::format("{}: tensor '{}'", directory.path.string(), tensor.name);
    }

    /// Counts the layers that each model chunk actually has, so that settings of an uneven split need not be known.
    void find_offsets() {
        const auto pp = static_cast<std::size_t>(files_.layout.pp);
        const auto vpp = static_cast<std::size_t>(files_.layout.vpp);
        std::vector<int> counts(pp * vpp, -1);
        for (const RankDirectory& directory : files_.directories) {
            if (directory.layers.size() != vpp)
                throw failure("{}: found {} model chunks, but args specify {}", directory.path.string(),
                              directory.layers.size(), vpp);
            for (std::size_t chunk = 0; chunk < vpp; ++chunk) {
                int& count = counts[chunk * pp + static_cast<std::size_t>(directory.pp)];
                if (count >= 0 && count != directory.layers[chunk])
                    throw failure("{}: {} layers, other ranks of the stage have {}", directory.path.string(),
                                  directory.layers[chunk], count);
                count = directory.layers[chunk];
            }
        }
        for (int count : counts) {
            offsets_.push_back(layers_);
            layers_ += count;
        }
        for (RankValues& rank : checkpoint_.rank_values) {
            rank.first_layers.clear();
            for (std::size_t chunk = 0; chunk < vpp; ++chunk)
                rank.first_layers.push_back(offsets_[chunk * pp + static_cast<std::size_t>(rank.pp)]);
        }
        if (const auto expected = integer(config_, "num_layers"); expected && *expected != layers_)
            throw failure("the files contain {} layers in total, but args specify {}", layers_, *expected);
        set_layout(counts);
    }

    void set_layout(const std::vector<int>& counts) {
        Layout& layout = *checkpoint_.layout;
        const auto set = [&](std::string_view key, std::optional<int>& into) {
            if (const auto value = integer(config_, key); value && *value >= 0 && *value <= layers_)
                into = static_cast<int>(*value);
        };
        set("decoder_first_pipeline_num_layers", layout.first);
        set("decoder_last_pipeline_num_layers", layout.last);
        try {
            if (layers_of_chunks(layout, layers_) == counts) return;
        } catch (const Error&) {  // `first` and `last` do not describe the split: list all stages
        }
        layout.first = layout.last = std::nullopt;
        layout.stages = counts;
    }

    void place(const RankDirectory& directory, const RankTensor& tensor) {
        Placed placed{.directory = &directory,
                      .tensor = &tensor,
                      .name = parse_rank_name(tensor.name, files_.spelling),
                      .shape = tensor.shape,
                      .strides = tensor.strides};
        RankName& name = placed.name;
        if (name.layer >= 0)
            name.layer += offsets_[static_cast<std::size_t>(tensor.chunk * files_.layout.pp + directory.pp)];
        if (name.tensor == "output_layer.weight" && config_.contains("untie_embeddings_and_output_weights") &&
            holds(config_, "!untie_embeddings_and_output_weights"))
            name.tensor = "embedding.word_embeddings.weight";
        if (is_expert(name.tensor)) place_expert(placed);
        placed_.push_back(std::move(placed));
    }

    void place_expert(Placed& placed) {
        const Index all = integer(config_, "num_experts").value_or(0);
        const int ep = files_.layout.ep;
        if (all <= 0 || all % ep != 0)
            throw failure("args specify {} experts, which cannot be split across ep={}", all, ep);
        const Index local = all / ep;
        if (placed.name.grouped_experts) return place_grouped(placed, local);
        if (placed.name.expert >= local) throw failure("expert {} of {}", placed.name.expert, local);
        placed.name.expert += static_cast<int>(placed.directory->ep * local);
    }

    /// weight1 contains an [h, f] matrix for each expert, one after the other, weight2 an [f, h] matrix, whatever the
    /// shapes of weight1 and weight2 are.
    void place_grouped(Placed& placed, Index experts) {
        const Index hidden = integer(config_, "hidden_size").value_or(0);
        const RankTensor& tensor = *placed.tensor;
        const Index elements = volume(tensor.shape);
        if (hidden <= 0 || elements % (hidden * experts) != 0 || tensor.strides != row_major(tensor.shape))
            throw failure("shape {} cannot hold {} experts of hidden size {}", to_string(tensor.shape), experts,
                          hidden);
        const Index width = elements / (hidden * experts);
        const bool first = placed.name.tensor.find("linear_fc1") != std::string::npos;
        placed.shape = first ? Shape{width, hidden} : Shape{hidden, width};
        placed.strides = first ? Strides{1, width} : Strides{1, hidden};
        placed.expert_step = hidden * width;
        placed.experts = experts;
        placed.name.expert = static_cast<int>(placed.directory->ep * experts);
    }

    /// In torch_dist, Megatron stacks layers unless the model has experts and moe_layer_freq is a list or more than 1.
    bool may_stack() const {
        if (!checkpoint_.common) return true;
        const auto args = checkpoint_.common->find("args");
        if (!args || !args->is(torch::Kind::object)) return true;
        const auto frequency = args->attribute("moe_layer_freq");
        if (!frequency || frequency->is_none() || !holds(config_, "num_experts")) return true;
        return frequency->is(torch::Kind::integer) && frequency->as_int() == 1;
    }

    bool layers_are_alike() const {
        std::map<int, std::set<std::tuple<Role, std::string_view, DType, Shape>>> layers;
        for (const Placed& placed : placed_) {
            if (placed.name.layer >= 0)
                layers[placed.name.layer].insert(
                    {placed.tensor->role, placed.name.tensor, placed.tensor->dtype, placed.shape});
        }
        return std::ranges::all_of(layers, [&](const auto& layer) { return layer.second == layers.begin()->second; });
    }

    void add_to_group(const Placed& placed) {
        const std::string prefix = role_prefix(placed.tensor->role, files_.distributed_optimizer);
        const bool in_stack = placed.name.layer >= 0;
        const std::string name = prefix + placed.name.stored(in_stack && !stacked_ ? placed.name.layer : -1);
        const auto [found, added] = numbers_.emplace(name, groups_.size());
        if (added) {
            Group group{.name = name, .dtype = placed.tensor->dtype, .local = placed.shape, .tp = files_.layout.tp};
            if (in_stack && stacked_) group.layers = layers_;
            if (is_expert(placed.name.tensor)) {
                group.experts = *integer(config_, "num_experts");
                group.tp = files_.layout.etp > 0 ? files_.layout.etp : files_.layout.tp;
            }
            if (placed.shape.size() + group.leading() > max_rank) throw failure("too many axes");
            groups_.push_back(std::move(group));
        }
        Group& group = groups_[found->second];
        if (group.local != placed.shape || group.dtype != placed.tensor->dtype)
            throw failure("{} of shape {}, elsewhere {} of shape {}", tpx::name(placed.tensor->dtype),
                          to_string(placed.shape), tpx::name(group.dtype), to_string(group.local));
        group.parts.push_back(&placed);
    }

    void make_catalogue(const Families& families) {
        std::ranges::sort(groups_, {}, &Group::name);
        Catalogue& catalogue = checkpoint_.catalogue;
        catalogue.tensors.clear();
        catalogue.pieces.clear();
        for (const Group& group : groups_)
            catalogue.tensors.push_back({group.name, group.dtype, group.with_leading(group.local)});
        // The shapes are not yet those of whole tensors, so sizes are taken only from the configuration.
        Reading reading = read(catalogue.tensors, families, config_);
        if (reading.family) reading.dims = Dims{*reading.family, reading.source(), config_};
        for (std::uint32_t t = 0; t < groups_.size(); ++t) {
            Tensor& tensor = catalogue.tensors[t];
            tensor.shape = whole_shape(reading, tensor.name, reading.meanings[t], tensor.shape, groups_[t].tp);
            add_pieces(reading, t);
        }
        std::ranges::sort(catalogue.pieces, [](const Piece& a, const Piece& b) {
            return std::tie(a.tensor, a.box, a.rank) < std::tie(b.tensor, b.box, b.rank);
        });
        find_holes(catalogue);
    }

    void add_pieces(const Reading& reading, std::uint32_t number) {
        const Group& group = groups_[number];
        const Tensor& tensor = checkpoint_.catalogue.tensors[number];
        std::vector<std::vector<Box>> boxes;
        for (int rank = 0; rank < group.tp; ++rank)
            boxes.push_back(boxes_of_rank(reading, tensor, reading.meanings[number], group.tp, rank));
        for (const Placed* placed : group.parts) {
            const int rank = group.experts > 0 ? placed->directory->etp : placed->directory->tp;
            for (Index expert = 0; expert < placed->experts; ++expert)
                add_boxes(number, *placed, expert, boxes[static_cast<std::size_t>(rank)]);
        }
    }

    /// Adds a piece for each box of one layer and expert. The boxes follow each other in the rank's tensor along the
    /// axis that is split.
    void add_boxes(std::uint32_t number, const Placed& placed, Index expert, const std::vector<Box>& boxes) {
        const Group& group = groups_[number];
        const Tensor& tensor = checkpoint_.catalogue.tensors[number];
        const int leading = group.leading();
        const int cut = cut_axis(boxes, tensor.shape);
        Index before = 0;  // elements of the previous boxes along the split axis
        for (const Box& box : boxes) {
            Piece piece{.tensor = number, .file = placed.tensor->file, .box = box, .rank = placed.directory->rank};
            const Index first = placed.name.expert + expert;
            if (group.layers > 0) piece.box[0] = {placed.name.layer, placed.name.layer + 1};
            if (group.experts > 0) piece.box[leading - 1] = {first, first + 1};
            for (int axis = 0; axis < leading; ++axis) piece.strides.push_back(0);
            for (Index stride : placed.strides) piece.strides.push_back(stride);
            const Index skipped =
                expert * placed.expert_step + (cut >= leading ? before * placed.strides[cut - leading] : 0);
            piece.offset = placed.tensor->offset + static_cast<std::uint64_t>(skipped * itemsize(tensor.dtype));
            if (cut >= 0) before += box[cut].size();
            if (!empty(piece.box)) add_rows(piece, leading, placed.tensor->rows, tensor.name);
        }
    }

    /// Adds the piece or, if its rows are not in today's order, one piece for each head's queries, keys and values.
    void add_rows(const Piece& piece, int axis, RowOrder order, const std::string& name) {
        std::vector<Piece>& pieces = checkpoint_.catalogue.pieces;
        if (order == RowOrder::by_head) return pieces.push_back(piece);
        constexpr Index kinds = 3;
        const Index heads_in_all = integer(config_, "num_attention_heads").value_or(0);
        const Index hidden = integer(config_, "hidden_size").value_or(0);
        const Index head = integer(config_, "kv_channels").value_or(heads_in_all > 0 ? hidden / heads_in_all : 0);
        const Index rows = piece.box[axis].size();
        if (head <= 0 || rows % (kinds * head) != 0)
            throw failure("tensor '{}': {} rows are not queries, keys and values of heads with {} rows", name, rows,
                          head);
        const Index heads = rows / (kinds * head);
        const Index step = piece.strides[axis];
        const DType dtype = checkpoint_.catalogue.tensors[piece.tensor].dtype;
        for (Index k = 0; k < heads * kinds; ++k) {
            Piece part = piece;
            const Index begin = piece.box[axis].begin + k * head;
            part.box[axis] = {begin, begin + head};
            const bool first = order == RowOrder::parts_first;
            const Index row = first ? (k % kinds * heads + k / kinds) * head : k / kinds * kinds * head + k % kinds;
            part.strides[axis] = first ? step : step * kinds;
            part.offset += static_cast<std::uint64_t>(row * step * itemsize(dtype));
            pieces.push_back(part);
        }
    }

    Checkpoint& checkpoint_;
    const RankFiles& files_;
    const Config& config_;
    std::vector<int> offsets_;  // the first layer of each model chunk
    int layers_ = 0;
    bool stacked_ = false;
    std::vector<Placed> placed_;
    std::map<std::string, std::size_t> numbers_;  // of groups, by name
    std::vector<Group> groups_;
};

}  // namespace

void assemble_ranks(Checkpoint& checkpoint, const Families& families, const Config& config) {
    Assembly{checkpoint, config}.run(families);
}

}  // namespace tpx::formats
