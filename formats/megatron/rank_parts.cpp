// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/rank_parts.hpp"

#include "formats/megatron/rank_cuts.hpp"
#include "formats/megatron/rank_grid.hpp"
#include "formats/megatron/rank_optimizer.hpp"
#include "formats/settings/pipeline_stages.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/dims.hpp"
#include "lib/layout/reading.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace tpx::formats::megatron {
namespace {

constexpr std::array<std::pair<std::string_view, Role>, 5> state_prefixes{{
    {"optimizer.state.fp32_param.", Role::master},
    {"optimizer.state.param.", Role::master},
    {"optimizer.state.exp_avg_sq.", Role::exp_avg_sq},
    {"optimizer.state.exp_avg.", Role::exp_avg},
    {"optimizer.state.momentum_buffer.", Role::momentum_buffer},
}};

constexpr std::string_view embedding = "embedding.word_embeddings.weight";

/// Removes the prefix of optimizer state from a stored name and returns its role.
Role take_role(std::string_view& name) {
    for (const auto& [prefix, role] : state_prefixes) {
        if (!name.starts_with(prefix)) continue;
        name.remove_prefix(prefix.size());
        return role;
    }
    return Role::weight;
}

Shape without_leading(const Shape& shape, int leading) {
    Shape rest;
    for (int axis = leading; axis < shape.size(); ++axis) rest.push_back(shape[axis]);
    return rest;
}

}  // namespace

RankParts::RankParts(const Content& content, const Config& args)
    : content_{content}, args_{args}, spelling_{Spelling::of(args)} {
    const int count = layers(*content.reading, content.tensors);
    int first = 0;
    for (int of_chunk : layers_of_chunks(content.layout, count)) {
        chunks_.push_back({first, of_chunk});
        first += of_chunk;
    }
    if (chunks_.size() != static_cast<std::size_t>(content.layout.pp * content.layout.vpp) || first != count)
        throw Error{Exit::usage, "layout: {}: {} layers cannot be split across {} model chunks",
                    to_string(content.layout), count, content.layout.pp * content.layout.vpp};
    experts_ = integer(args, "num_experts").value_or(0);
    prediction_ = integer(args, "mtp_num_layers").value_or(0) > 0 ? chunk_of_prediction(args, content.layout) : -1;
    for (std::uint32_t t = 0; t < content.tensors.size(); ++t)
        in_context([&] { return fmt::format("tensor '{}'", content.tensors[t].name); }, [&] { add(t); });
    check_stacks();
}

/// Throws Error if a tensor has fewer layers than others of the same stack.
void RankParts::check_stacks() const {
    std::map<std::string, Index> counts;
    for (const Stored& stored : stored_) {
        if (!stored.stacked) continue;
        Index& count = counts[stored.name.stack];
        count = std::max(count, content_.tensors[stored.number].shape[0]);
    }
    for (const Stored& stored : stored_) {
        const Tensor& tensor = content_.tensors[stored.number];
        if (stored.stacked && tensor.shape[0] != counts.at(stored.name.stack))
            throw failure("tensor '{}': it has {}, others have {}", tensor.name,
                          counted(static_cast<std::uint64_t>(tensor.shape[0]), "layer"), counts.at(stored.name.stack));
    }
}

void RankParts::add(std::uint32_t tensor) {
    const Meaning& meaning = content_.reading->meanings[tensor];
    std::string_view name = content_.tensors[tensor].name;
    if (name.find("_extra_state") != std::string_view::npos) return;
    Stored stored{.number = tensor, .role = take_role(name), .name = parse_stored_name(name)};
    if (!content_.reading->family) throw failure("how it is split is unknown: {}", content_.reading->why_not);
    const bool known = meaning.kind == Meaning::Kind::parameter || name.ends_with(".inv_freq");
    if (!known || itemsize(content_.tensors[tensor].dtype) == 0) throw failure("Megatron's rank files cannot store it");
    stored.stacked = !stored.name.stack.empty() && stored.name.layer < 0 && meaning.rule != nullptr &&
                     meaning.rule->name.optional('l');
    if (!stored.name.stack.empty() && stored.name.layer < 0 && !stored.stacked && meaning.rule != nullptr)
        throw failure(
            "its rule does not name the layer, so its names in rank files are unknown; write {{l?}} after 'layers.' in "
            "the "
            "rule and l as the tensor's first axis");
    if (stored.name.stack.empty() && stored.name.within.empty()) stored.name.tensor = name;
    stored.experts = is_expert(stored.name.tensor);
    stored.leading = (stored.stacked ? 1 : 0) + (stored.experts ? 1 : 0);
    stored.chunk = chunk_of(tensor, name);
    const Shape& shape = content_.tensors[tensor].shape;
    if (shape.size() < stored.leading || (stored.experts && shape[stored.leading - 1] != experts_))
        throw failure("shape {} for {} experts", to_string(shape), experts_);
    stored_.push_back(std::move(stored));
}

bool RankParts::any(bool experts, bool decays) const {
    return std::ranges::any_of(stored_, [&](const Stored& stored) {
        const Tensor& tensor = content_.tensors[stored.number];
        return stored.role == Role::weight && !is_buffer(tensor.name) && stored.experts == experts &&
               without_decay(tensor.name, tensor.shape.size() - stored.leading) != decays;
    });
}

bool RankParts::masters() const { return std::ranges::find(stored_, Role::master, &Stored::role) != stored_.end(); }

/// With multi-token prediction, whose layers may be between the final norm and the output layer, Megatron stores the
/// norm in the chunk of the last layer.
int RankParts::chunk_of(std::uint32_t tensor, std::string_view name) const {
    const Meaning& meaning = content_.reading->meanings[tensor];
    if (name.starts_with("mtp.")) return prediction_ < 0 ? static_cast<int>(chunks_.size()) - 1 : prediction_;
    if (meaning.kind != Meaning::Kind::parameter ||
        !content_.reading->family->tensor(meaning.rule->expression.parts[0]).last)
        return 0;
    int chunk = static_cast<int>(chunks_.size()) - 1;
    const bool norm = prediction_ >= 0 && name.starts_with("decoder.final_layernorm.");
    while (norm && chunk > 0 && chunks_[static_cast<std::size_t>(chunk)].count == 0) --chunk;
    return chunk;
}

const std::vector<Box>& RankParts::boxes(Stored& stored, int rank) {
    const auto known = stored.boxes.find(rank);
    if (known != stored.boxes.end()) return known->second;
    const Layout& layout = content_.layout;
    const int tp = stored.experts && layout.etp > 0 ? layout.etp : layout.tp;
    return stored.boxes
        .emplace(rank, boxes_of_rank(*content_.reading, content_.tensors[stored.number],
                                     content_.reading->meanings[stored.number], tp, rank))
        .first->second;
}

/// Gathers the parameters of one directory.
class RankParts::Builder {
public:
    Builder(RankParts& all, const RankDirectory& directory) : all_{all}, at_{directory} {}

    std::vector<RankParameter> build() {
        const Layout& layout = all_.content_.layout;
        const bool tied = layout.pp > 1 && all_.args_.contains("untie_embeddings_and_output_weights") &&
                          holds(all_.args_, "!untie_embeddings_and_output_weights");
        for (Stored& stored : all_.stored_) {
            if (!stored.name.stack.empty()) {
                add_layers(stored);
                continue;
            }
            add_at(stored, stored.name, stored.chunk);
            if (stored.name.tensor != embedding) continue;
            if (all_.prediction_ > 0) add_at(stored, stored.name, all_.prediction_);
            RankName copy = stored.name;
            copy.tensor = "output_layer.weight";
            if (tied) add_at(stored, copy, layout.pp * layout.vpp - 1);
        }
        std::ranges::sort(found_, {}, [](const RankParameter& p) { return std::pair{p.chunk, module_order(p.name)}; });
        return std::move(found_);
    }

private:
    /// Adds the tensor if the chunk belongs to the directory's stage.
    void add_at(Stored& stored, const RankName& name, int chunk) {
        const int pp = all_.content_.layout.pp;
        if (chunk % pp == at_.pp) add(stored, name, chunk / pp, -1);
    }

    void add_layers(Stored& stored) {
        const Layout& layout = all_.content_.layout;
        for (int chunk = 0; chunk < layout.vpp; ++chunk) {
            const Chunk& own = all_.chunks_[static_cast<std::size_t>(chunk * layout.pp + at_.pp)];
            for (int layer = own.first; layer < own.first + own.count; ++layer) {
                if (!stored.stacked && layer != stored.name.layer) continue;
                // The other stack of T5 may have more layers; check_stacks() refuses other short tensors.
                if (stored.stacked && layer >= all_.content_.tensors[stored.number].shape[0]) break;
                RankName name = stored.name;
                name.layer = layer - own.first;
                add(stored, name, chunk, layer);
            }
        }
    }

    void add(Stored& stored, RankName name, int chunk, int layer) {
        if (!stored.experts) return add_part(stored, name, chunk, layer, -1, 0, 1);
        const Index local = all_.experts_ / all_.content_.layout.ep;
        const bool grouped = all_.spelling_.experts == Spelling::Experts::grouped && name.tensor.ends_with(".weight");
        for (Index j = 0; j < local; ++j) {
            name.expert = static_cast<int>(j);
            name.grouped_experts = grouped;
            add_part(stored, name, chunk, layer, at_.ep * local + j, grouped ? j : 0, grouped ? local : 1);
        }
    }

    /// Adds a part of a parameter. If `together` experts share one tensor, each is transposed, and `position` is the
    /// expert's position among them.
    void add_part(Stored& stored, const RankName& name, int chunk, int layer, Index expert, Index position,
                  Index together) {
        const std::vector<Box>& boxes = all_.boxes(stored, stored.experts ? at_.etp : at_.tp);
        const Tensor& tensor = all_.content_.tensors[stored.number];
        const int cut = cut_axis(boxes, tensor.shape);
        Shape shape = without_leading(sizes(boxes[0]), stored.leading);
        for (std::size_t k = 1; k < boxes.size(); ++k) shape[cut - stored.leading] += boxes[k][cut].size();
        const bool transposed = name.grouped_experts;
        RankParameter& parameter = parameter_of(name, chunk, transposed ? grouped_shape(name, shape, together) : shape);
        parameter.dtypes[stored.role] = tensor.dtype;
        const Strides strides = transposed ? Strides{1, shape[0]} : row_major(shape);
        Index before = 0;
        for (const Box& box : boxes) {
            RankPart part{.tensor = stored.number, .box = box, .begin = position * volume(shape)};
            if (stored.stacked) part.box[0] = {layer, layer + 1};
            if (stored.experts) part.box[stored.leading - 1] = {expert, expert + 1};
            if (cut >= stored.leading) part.begin += before * strides[cut - stored.leading];
            for (int axis = 0; axis < stored.leading; ++axis) part.strides.push_back(0);
            for (Index stride : strides) part.strides.push_back(stride);
            if (cut >= 0) before += box[cut].size();
            if (!empty(part.box)) parameter.parts[stored.role].push_back(part);
        }
    }

    /// weight1 is [hidden, experts * width], weight2 [experts * width, hidden].
    static Shape grouped_shape(const RankName& name, const Shape& shape, Index together) {
        const bool first = name.tensor.find("linear_fc1") != std::string::npos;
        return first ? Shape{shape[1], together * shape[0]} : Shape{together * shape[1], shape[0]};
    }

    RankParameter& parameter_of(const RankName& name, int chunk, const Shape& shape) {
        const std::string own = rank_name(name, all_.spelling_);
        const auto [found, added] = numbers_.emplace(std::pair{chunk, own}, found_.size());
        if (added) found_.push_back({.name = own, .chunk = chunk, .shape = shape});
        if (found_[found->second].shape != shape)
            throw failure("tensor '{}': weight and optimizer state have different shapes, and one of them has {}", own,
                          to_string(shape));
        return found_[found->second];
    }

    RankParts& all_;
    const RankDirectory& at_;
    std::vector<RankParameter> found_;
    std::map<std::pair<int, std::string>, std::size_t> numbers_;
};

std::vector<RankParameter> RankParts::of(const RankDirectory& directory) { return Builder{*this, directory}.build(); }

}  // namespace tpx::formats::megatron
