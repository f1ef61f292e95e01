// SPDX-License-Identifier: Apache-2.0
#include "formats/megatron/rank_optimizer.hpp"

#include "formats/megatron/buffers.hpp"
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
    for (std::size_t k = 0; k < directory.tensors.size(); ++k) {
        const RankTensor& tensor = directory.tensors[k];
        if (tensor.role != Role::weight || is_buffer(tensor.name)) continue;
        const bool expert = tensor.name.find("mlp.experts.") != std::string::npos;
        if (split && expert != experts) continue;
        const auto [place, added] = known.try_emplace({tensor.file, tensor.offset}, found.size());
        if (added || volume(tensor.shape) == 0)
            found.push_back(k);
        else
            found[place->second] = k;
    }
    return found;
}

/// The optimizers: one, or those of dense parameters and of experts.
std::vector<Value> optimizers(Value value, bool split) {
    if (!split) return {value};
    if (!value.is(Kind::list) || value.items().size() != 2)
        throw failure("the optimizer is {}, not a list of two, for dense parameters and for experts", value.describe());
    return {value.items().begin(), value.items().end()};
}

torch::StoredTensor tensor_in(const torch::Archive& archive, Value value, const char* what) {
    const auto found = archive.tensor(value);
    if (!found) throw failure("{} is {}, not a tensor", what, value.describe());
    if (found->compressed || found->conjugated || found->negated)
        throw failure("{}: its elements cannot be moved as they are", what);
    return *found;
}

/// Reads the state of one optimizer in model_optim_rng.pt.
class PlainReader {
public:
    PlainReader(RankDirectory& directory, const torch::Archive& archive, std::uint32_t file, Value optimizer)
        : directory_{directory}, archive_{archive}, file_{file} {
        const auto inner = optimizer.find("optimizer");
        state_of_ = inner.value_or(optimizer);
        masters_ = optimizer.find("fp32_from_fp16_params");
    }

    void read(const std::vector<std::size_t>& parameters) {
        const auto state = state_of_.find("state");
        if (!state) return;  // the distributed optimizer stores its state elsewhere
        for (const auto& [key, value] : state->entries()) states_.emplace_back(key.as_int(), value);
        std::ranges::sort(states_, {}, &std::pair<std::int64_t, Value>::first);
        const auto groups = state_of_.at("param_groups").items();
        std::size_t read = 0;
        for (std::size_t g = 0; g < groups.size(); ++g) read += read_group(groups[g], g, groups.size(), parameters);
        if (read != parameters.size())
            throw failure("the optimizer has {} parameters, the model {}", read, parameters.size());
    }

private:
    /// The parameters of a group, which its weight decay determines.
    std::vector<std::size_t> members(Value group, std::size_t groups, const std::vector<std::size_t>& all) const {
        if (groups > 2) throw failure("the optimizer has {} groups of parameters; at most 2 can be identified", groups);
        const double decay = group.at("wd_mult").as_real();
        if (decay != 0 && decay != 1) throw failure("a group of parameters has wd_mult = {}", decay);
        std::vector<std::size_t> found;
        for (std::size_t k : all) {
            const RankTensor& tensor = directory_.tensors[k];
            if (without_decay(tensor.name, tensor.shape.size()) == (decay == 0)) found.push_back(k);
        }
        return found;
    }

    std::size_t read_group(Value group, std::size_t number, std::size_t groups, const std::vector<std::size_t>& all) {
        const auto ids = group.at("params").items();
        const std::vector<std::size_t> mine = members(group, groups, all);
        if (ids.size() != mine.size())
            throw failure("group {} of the optimizer has {} parameters; the model has {} with its weight decay", number,
                          ids.size(), mine.size());
        std::span<const Value> masters;
        if (masters_ && masters_->is(Kind::list) && number < masters_->items().size())
            masters = masters_->items()[number].items();
        std::size_t used = 0;
        for (std::size_t j = 0; j < mine.size(); ++j) {
            const bool half = masters_ && is_half(directory_.tensors[mine[j]].dtype);
            if (half && used == masters.size()) throw failure("group {} has {} master weights", number, used);
            in_context([&] { return fmt::format("tensor '{}'", directory_.tensors[mine[j]].name); },
                       [&] { read_parameter(mine[j], ids[j].as_int(), half ? masters[used] : Value{}); });
            used += half;
        }
        if (used != masters.size())
            throw failure("group {} has {} master weights for {} parameters", number, masters.size(), used);
        return mine.size();
    }

    void read_parameter(std::size_t parameter, std::int64_t id, Value master) {
        if (!master.is_none()) add(parameter, Role::master, tensor_in(archive_, master, "its master weight"));
        const auto state = std::ranges::lower_bound(states_, id, {}, &std::pair<std::int64_t, Value>::first);
        if (state == states_.end() || state->first != id) throw failure("the optimizer has no state {}", id);
        for (const auto& [key, value] : state->second.entries()) {
            const std::string_view name = key.as_string();
            if (name == "step") continue;
            if (name != "exp_avg" && name != "exp_avg_sq") throw failure("unknown optimizer state '{}'", name);
            add(parameter, name == "exp_avg" ? Role::exp_avg : Role::exp_avg_sq,
                tensor_in(archive_, value, "its moment"));
        }
    }

    void add(std::size_t parameter, Role role, const torch::StoredTensor& stored) {
        RankTensor tensor = directory_.tensors[parameter];
        if (stored.shape != tensor.shape)
            throw failure("its {} has shape {}, the parameter {}", role, to_string(stored.shape),
                          to_string(tensor.shape));
        tensor.role = role;
        tensor.dtype = stored.dtype;
        tensor.strides = stored.strides;
        tensor.file = file_;
        tensor.offset = stored.offset;
        directory_.tensors.push_back(std::move(tensor));
    }

    RankDirectory& directory_;
    const torch::Archive& archive_;
    std::uint32_t file_;
    Value state_of_;
    std::optional<Value> masters_;
    std::vector<std::pair<std::int64_t, Value>> states_;
};

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

bool without_decay(std::string_view name, int axes) { return axes == 1 || name.ends_with(".bias"); }

void add_plain_optimizer(RankDirectory& directory, const torch::Archive& archive, std::uint32_t file,
                         const Config& args, const Layout& layout) {
    const auto optimizer = archive.root().find("optimizer");
    if (!optimizer || optimizer->is_none()) return;
    const bool split = two_optimizers(args, layout);
    const std::vector<Value> all = optimizers(*optimizer, split);
    for (std::size_t k = 0; k < all.size(); ++k) {
        if (all[k].is_none()) continue;
        PlainReader{directory, archive, file, all[k]}.read(parameters_of(directory, split, k == 1));
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
