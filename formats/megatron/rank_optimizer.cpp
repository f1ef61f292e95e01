// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/rank_optimizer.hpp"

#include "formats/megatron/buffers.hpp"
#include "formats/megatron/muon_optimizers.hpp"
#include "formats/megatron/plain_optimizer.hpp"
#include "formats/megatron/rank_state.hpp"
#include "formats/state/roles.hpp"
#include "lib/core/error.hpp"
#include "lib/layout/dims.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace tpx::formats::megatron {
namespace {

using torch::Kind;
using torch::Value;

/// The parameters of one optimizer, as indices into the directory's tensors, in module order. A parameter with two
/// names in the model, such as T5's position embeddings, counts once, under the last name, as in Megatron's torch_dist.
std::vector<std::size_t> parameters_of(const RankDirectory& directory, bool split, bool experts) {
    std::vector<std::size_t> found;
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::size_t> known;  // indices into `found`, by file and offset
    std::set<std::pair<int, std::string_view>> weights;                    // by chunk and name
    for (const RankTensor& tensor : directory.tensors)
        if (tensor.role == Role::weight) weights.emplace(tensor.chunk, tensor.name);
    for (std::size_t k = 0; k < directory.tensors.size(); ++k) {
        const RankTensor& tensor = directory.tensors[k];
        if (tensor.role != Role::weight || is_buffer(tensor.name)) continue;
        if (weights.contains({tensor.chunk, second_name(tensor.name)})) continue;
        if (split && is_of_experts(tensor.name) != experts) continue;
        const auto [place, added] = known.try_emplace({tensor.file, tensor.offset}, found.size());
        if (added || volume(tensor.shape) == 0)
            found.push_back(k);
        else
            found[place->second] = k;
    }
    return found;
}

/// The optimizers of a list, except those that the rank does not have; empty if `value` is not a list.
std::vector<OptimizerState> chain_of(Value value) {
    std::vector<OptimizerState> states;
    for (const Value one : value.is(Kind::list) ? value.items() : std::span<const Value>{}) {
        const auto inner = one.is(Kind::dict) ? one.find("optimizer") : std::nullopt;
        const auto groups = inner && inner->is(Kind::dict) ? inner->find("param_groups") : std::nullopt;
        if (groups && groups->is(Kind::list)) states.push_back({one, {groups->items().begin(), groups->items().end()}});
    }
    return states;
}

/// The optimizers: one, or those of dense parameters and of experts.
std::vector<Value> optimizers(Value value, bool split) {
    if (!split) return {value};
    if (!value.is(Kind::list) || value.items().size() != 2)
        throw failure("the optimizer is {}, not a list of two, for dense parameters and for experts", value.describe());
    return {value.items().begin(), value.items().end()};
}

std::vector<BufferVector> vectors_of(const torch::Archive& archive, Value buffer) {
    std::vector<BufferVector> found;
    const auto unpadded = buffer.at("numel_unpadded").as_int();
    for (const auto& [key, value] : buffer.entries()) {
        const std::string_view name = key.as_string();
        if (name == "numel_unpadded" || name == "step") continue;
        BufferVector vector{role_of_vector(name), tensor_in(archive, value, "a vector of the optimizer")};
        const Shape& shape = vector.stored.shape;
        if (shape.size() != 1 || shape[0] != unpadded || (shape[0] > 0 && vector.stored.strides[0] != 1))
            throw failure("vector '{}' has shape {}, numel_unpadded is {}", name, to_string(shape), unpadded);
        found.push_back(std::move(vector));
    }
    return found;
}

/// The only entry of a buffer's dict; its key is (param dtype, grad dtype).
Value only_dtype(Value by_dtype) {
    const auto entries = by_dtype.entries();
    const bool pair = entries.size() == 1 && entries[0].key.is(Kind::tuple) && entries[0].key.items().size() == 2;
    if (!pair || !entries[0].key.items()[0].is(Kind::global))
        throw failure("a buffer is {}; files from before February 2024 have another layout, which tpx cannot read",
                      by_dtype.describe());
    return entries[0].value;
}

void add_buffer(RankDirectory& directory, std::uint32_t file, const std::vector<std::size_t>& parameters,
                const std::vector<BufferVector>& vectors, std::optional<Index> limit, int ranks, const Config& args,
                const Layout& layout) {
    std::vector<BufferParameter> laid;
    for (std::size_t k : parameters) {
        const RankTensor& tensor = directory.tensors[k];
        laid.push_back({volume(tensor.shape), is_shared_embedding(args, layout, tensor.name)});
    }
    const BufferLayout places = lay_out_buffer(laid, limit, ranks);
    for (const BufferVector& vector : vectors) {
        if (vector.stored.shape[0] != places.size)
            throw failure("{} has {} elements; buckets of these parameters have {} together", vector.role,
                          vector.stored.shape[0], places.size);
        for (std::size_t j = 0; j < parameters.size(); ++j) {
            RankTensor tensor = directory.tensors[parameters[j]];
            tensor.role = vector.role;
            tensor.dtype = vector.stored.dtype;
            tensor.strides = row_major(tensor.shape);
            tensor.file = file;
            tensor.offset =
                vector.stored.offset + static_cast<std::uint64_t>(places.begin[j] * itemsize(vector.stored.dtype));
            directory.tensors.push_back(std::move(tensor));
        }
    }
}

/// Groups parameters by model chunk and dtype, in module order; Megatron stores each group in one buffer.
std::vector<std::vector<std::size_t>> buffers_of(const RankDirectory& directory,
                                                 const std::vector<std::size_t>& parameters) {
    std::vector<std::vector<std::size_t>> buffers;
    for (std::size_t k : parameters) {
        const RankTensor& tensor = directory.tensors[k];
        const auto buffer = std::ranges::find_if(buffers, [&](const auto& list) {
            const RankTensor& first = directory.tensors[list[0]];
            return first.chunk == tensor.chunk && first.dtype == tensor.dtype;
        });
        if (buffer == buffers.end())
            buffers.push_back({k});
        else
            buffer->push_back(k);
    }
    return buffers;
}

/// Adds the state of `states`, a chain of Muon and Adam.
void add_muon(RankDirectory& directory, const torch::Archive& archive, std::uint32_t file,
              const std::vector<OptimizerState>& states) {
    const std::vector<std::size_t> parameters = parameters_of(directory, false, false);
    std::vector<TrainedParameter> named;
    for (const std::size_t k : parameters)
        named.push_back({directory.tensors[k].name, directory.tensors[k].shape.size()});
    GroupMembers members = members_of_muon(states, named);
    for (std::size_t s = 0; s < states.size(); ++s) {
        for (auto& group : members[s])
            for (std::size_t& p : group) p = parameters[p];
        read_optimizer_groups(directory, archive, file, states[s].outer, members[s]);
    }
}

}  // namespace

bool two_optimizers(const Config& args, const Layout& layout) { return holds(args, "num_experts") && layout.ep > 1; }

int sharing_ranks(const Layout& layout, bool experts) {
    const int etp = layout.etp > 0 ? layout.etp : layout.tp;
    const int dense = layout.dp * layout.cp;
    return experts ? std::max(1, layout.tp * dense / (etp * layout.ep)) : dense;
}

Role role_of_vector(std::string_view name) {
    if (name == "param") return Role::master;
    if (name == "exp_avg") return Role::exp_avg;
    if (name == "exp_avg_sq") return Role::exp_avg_sq;
    throw failure("unknown optimizer state '{}'", name);
}

std::map<int, std::vector<BufferVector>> buffers_in(const torch::Archive& archive, Value optimizer) {
    const auto coalesced = optimizer.find("buckets_coalesced");
    if (!coalesced || !coalesced->is(Kind::boolean) || !coalesced->as_bool())
        throw failure(
            "buckets are not coalesced; files from before February 2024 have another layout, which tpx cannot read");
    std::map<int, std::vector<BufferVector>> buffers;
    for (const auto& [key, value] : optimizer.entries()) {
        if (!key.is(Kind::integer)) continue;
        const std::int64_t number = key.as_int();
        if (number < 0 || number >= static_cast<std::int64_t>(optimizer.entries().size()))
            throw failure("a buffer has number {}", number);
        buffers[static_cast<int>(number)] = vectors_of(archive, only_dtype(value));
    }
    return buffers;
}

bool has_momentum(std::string_view name, int axes) {
    return axes == 2 && name != "embedding.word_embeddings.weight" && name != "output_layer.weight";
}

bool without_decay(std::string_view name, int axes) { return axes == 1 || name.ends_with(".bias"); }

void add_plain_optimizer(RankDirectory& directory, const torch::Archive& archive, std::uint32_t file,
                         const Config& args, const Layout& layout) {
    const auto optimizer = archive.root().find("optimizer");
    if (!optimizer || optimizer->is_none()) return;
    const bool split = two_optimizers(args, layout);
    if (const auto chain = chain_of(*optimizer); has_muon(chain)) return add_muon(directory, archive, file, chain);
    const std::vector<Value> all = optimizers(*optimizer, split);
    for (std::size_t k = 0; k < all.size(); ++k) {
        if (all[k].is_none()) continue;
        read_plain_optimizer(directory, archive, file, all[k], parameters_of(directory, split, k == 1));
    }
}

void add_distributed_optimizer(RankDirectory& directory, const torch::Archive& archive, std::uint32_t file,
                               const Config& args, const Layout& layout) {
    const bool split = two_optimizers(args, layout);
    const std::vector<Value> all = optimizers(archive.root(), split);
    for (std::size_t k = 0; k < all.size(); ++k) {
        if (all[k].is_none()) continue;
        const auto buffers = buffers_of(directory, parameters_of(directory, split, k == 1));
        const std::map<int, std::vector<BufferVector>> vectors = buffers_in(archive, all[k]);
        if (vectors.size() != buffers.size() ||
            (!vectors.empty() && vectors.rbegin()->first != static_cast<int>(buffers.size()) - 1))
            throw failure("{} buffers for parameters of {}", vectors.size(), buffers.size());
        const int ranks = sharing_ranks(layout, k == 1);
        for (std::size_t b = 0; b < buffers.size(); ++b) {
            const int chunk = directory.tensors[buffers[b][0]].chunk;
            add_buffer(directory, file, buffers[b], vectors.at(static_cast<int>(b)),
                       bucket_size(args, layout, directory.pp, chunk), ranks, args, layout);
        }
    }
}

}  // namespace tpx::formats::megatron
