// SPDX-License-Identifier: Apache-2.0
#include "formats/torch/flat_groups.hpp"

#include "formats/state/training_keys.hpp"
#include "formats/torch/optimizer_dict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace tpx::formats {
namespace {

using torch::Archive;
using torch::Entry;
using torch::Kind;
using torch::NamedTensor;
using torch::StoredTensor;
using torch::Value;

constexpr std::string_view weights_key = "module";

/// The elements of a contiguous tensor in C order from number `begin` on, with the shape `shape`.
StoredTensor part_of(const StoredTensor& tensor, Index begin, const Shape& shape) {
    StoredTensor part = tensor;
    part.shape = shape;
    part.strides = row_major(shape);
    part.offset += static_cast<std::uint64_t>(begin * itemsize(tensor.dtype));
    part.storage_offset += static_cast<std::uint64_t>(begin);
    return part;
}

bool is_vector(const StoredTensor& tensor) {
    return tensor.dtype == DType::f32 && tensor.shape.size() == 1 && tensor.strides == row_major(tensor.shape) &&
           !tensor.compressed && !tensor.conjugated && !tensor.negated;
}

float value_of(const char* bytes, DType dtype) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes, sizeof bits);
    if (dtype == DType::bf16) return std::bit_cast<float>(std::uint32_t{bits} << 16);
    const int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
    const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                     : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
    return (bits & 0x8000) != 0 ? -size : size;
}

/// Whether `weights` may be the rounded `masters`, both in C order: they differ at most in the last bit of a weight.
bool may_round_to(std::string_view masters, std::string_view weights, DType dtype) {
    const float relative = dtype == DType::bf16 ? 0x1p-8F : 0x1p-10F, least = 0x1p-24F;
    for (std::size_t k = 0; 4 * k < masters.size(); ++k) {
        float master = 0;
        std::memcpy(&master, masters.data() + 4 * k, sizeof master);
        const float weight = value_of(weights.data() + 2 * k, dtype);
        if (std::isnan(weight)
                ? !std::isnan(master)
                : !(std::abs(master - weight) <= relative * std::abs(weight) + least || master == weight))
            return false;
    }
    return true;
}

/// A parameter that may be in a group.
struct Candidate {
    std::string name;
    StoredTensor tensor;
};

/// Finds which candidates are in which group of masters.
class Matcher {
public:
    Matcher(const Archive& archive, std::vector<Candidate> candidates, std::vector<StoredTensor> groups)
        : archive_{archive},
          candidates_{std::move(candidates)},
          groups_{std::move(groups)},
          filled_(groups_.size(), 0) {}

    /// The group of each candidate, -1 if it is in none (frozen). Unset unless exactly one assignment fits.
    std::optional<std::vector<int>> match() {
        chosen_.assign(candidates_.size(), -1);
        visit(0);
        return ways_ == 1 ? std::optional{found_} : std::nullopt;
    }

private:
    static constexpr int most_visits = 1 << 16;  // enough unless many parameters are equal

    void visit(std::size_t c) {
        if (ways_ > 1) return;
        if (++visits_ > most_visits) {
            ways_ = 2;
            return;
        }
        if (c == candidates_.size()) {
            for (std::size_t g = 0; g < groups_.size(); ++g)
                if (filled_[g] != volume(groups_[g].shape)) return;
            ++ways_;
            found_ = chosen_;
            return;
        }
        bool fits = false;
        const Index size = volume(candidates_[c].tensor.shape);
        for (std::size_t g = 0; g < groups_.size(); ++g) {
            if (!is_next(c, g, size)) continue;
            fits = true;
            chosen_[c] = static_cast<int>(g);
            filled_[g] += size;
            visit(c + 1);
            filled_[g] -= size;
            chosen_[c] = -1;
        }
        if (!fits) visit(c + 1);
    }

    bool is_next(std::size_t c, std::size_t g, Index size) {
        if (filled_[g] + size > volume(groups_[g].shape)) return false;
        const auto [known, added] = known_.try_emplace({c, g, filled_[g]});
        if (added) known->second = has_values(candidates_[c].tensor, groups_[g], filled_[g], size);
        return known->second;
    }

    bool has_values(const StoredTensor& weight, const StoredTensor& group, Index begin, Index size) const {
        constexpr Index first = Index{1} << 10, others = Index{1} << 20;  // most weights that do not match differ early
        const StoredTensor flat = part_of(weight, 0, {size});
        for (Index at = 0, end = 0; at < size; at = end) {
            end = std::min(at + (at == 0 ? first : others), size);
            const Shape shape{end - at};
            if (!may_round_to(archive_.elements(part_of(group, begin + at, shape)),
                              archive_.elements(part_of(flat, at, shape)), weight.dtype))
                return false;
        }
        return true;
    }

    const Archive& archive_;
    std::vector<Candidate> candidates_;
    std::vector<StoredTensor> groups_;
    std::vector<Index> filled_;
    std::vector<int> chosen_;
    std::vector<int> found_;
    std::map<std::tuple<std::size_t, std::size_t, Index>, bool> known_;
    int ways_ = 0;
    int visits_ = 0;
};

/// The weights that may be parameters, in the model's order, without buffers and further names of a tensor.
std::vector<Candidate> candidates_of(const Archive& archive, Value weights, const std::optional<Value>& buffers) {
    std::set<std::string_view> excluded;
    for (const Value name : buffers && buffers->is(Kind::list) ? buffers->items() : std::span<const Value>{})
        if (name.is(Kind::string)) excluded.insert(name.as_string());
    std::vector<Candidate> candidates;
    std::set<std::pair<std::string, std::uint64_t>> met;
    for (const Entry& entry : weights.entries()) {
        if (!entry.key.is(Kind::string) || !Archive::is_tensor(entry.value)) continue;
        const auto tensor = archive.tensor(entry.value);
        const bool half = tensor && (tensor->dtype == DType::bf16 || tensor->dtype == DType::f16);
        if (!half || excluded.contains(entry.key.as_string()) || tensor->compressed) continue;
        if (tensor->strides != row_major(tensor->shape) || !met.emplace(tensor->storage, tensor->storage_offset).second)
            continue;
        candidates.push_back({std::string{entry.key.as_string()}, *tensor});
    }
    return candidates;
}

/// Replaces flat tensors by their parts.
class Splitter {
public:
    Splitter(TrainingTensors& training, const std::vector<Candidate>& candidates, const std::vector<int>& groups)
        : training_{training}, candidates_{candidates}, groups_{groups} {}

    /// `vectors` are the roles and group numbers of flat tensors by name.
    void split(const std::map<std::string, std::pair<Role, std::size_t>>& vectors) {
        std::vector<NamedTensor> old = std::exchange(training_.tensors, {});
        for (NamedTensor& named : old) {
            const auto vector = vectors.find(named.name);
            if (vector == vectors.end())
                training_.tensors.push_back(std::move(named));
            else
                add_parts(named, vector->second.first, vector->second.second);
        }
    }

private:
    void add_parts(const NamedTensor& vector, Role role, std::size_t group) {
        Index begin = 0;
        for (std::size_t c = 0; c < candidates_.size(); ++c) {
            if (groups_[c] != static_cast<int>(group)) continue;
            const Shape& shape = candidates_[c].tensor.shape;
            const std::string name = fmt::format("{}.{}", vector.name, candidates_[c].name);
            training_.vectors[vector.name].push_back(name);
            training_.parts.push_back(
                {training_.tensors.size(), role, fmt::format("{}.{}", weights_key, candidates_[c].name), group});
            training_.tensors.push_back({name, part_of(vector.tensor, begin, shape)});
            begin += volume(shape);
        }
    }

    TrainingTensors& training_;
    const std::vector<Candidate>& candidates_;
    const std::vector<int>& groups_;
};

/// The vectors of the optimizer at `key`, by name: masters, and state with one element for each master. Unset unless
/// the optimizer has one numbered parameter, a vector, for each group.
std::optional<std::map<std::string, std::pair<Role, std::size_t>>> vectors_of(const Archive& archive,
                                                                              std::string_view key, Value optimizer,
                                                                              const std::vector<StoredTensor>& groups) {
    std::map<std::string, std::pair<Role, std::size_t>> vectors;
    for (std::size_t g = 0; g < groups.size(); ++g)
        vectors[fmt::format("{}.{}.{}", key, flat_masters_key, g)] = {Role::master, g};
    const std::string prefix = fmt::format("{}{}.state", key, path_of_state_dict(optimizer));
    for (const Entry& entry : state_dict_in(optimizer).at("state").entries()) {
        if (!entry.key.is(Kind::integer) || !entry.value.is(Kind::dict)) return std::nullopt;
        const auto g = static_cast<std::size_t>(entry.key.as_int());
        if (g >= groups.size()) return std::nullopt;
        for (const Entry& one : entry.value.entries()) {
            if (!one.key.is(Kind::string) || !Archive::is_tensor(one.value)) continue;
            const auto tensor = archive.tensor(one.value);
            if (tensor->shape != groups[g].shape) continue;
            if (!is_vector(*tensor)) return std::nullopt;
            vectors[fmt::format("{}.{}.{}", prefix, g, one.key.as_string())] = {role_of_state(one.key.as_string()), g};
        }
    }
    return vectors;
}

}  // namespace

TrainingTensors training_tensors(const Archive& archive) {
    TrainingTensors training{.tensors = archive.tensors()};
    const Value root = archive.root();
    const auto weights = root.is(Kind::dict) ? root.find(weights_key) : std::nullopt;
    if (!weights || !(weights->is(Kind::dict) || weights->is(Kind::object))) return training;
    for (const Entry& entry : root.entries()) {
        if (!entry.key.is(Kind::string)) continue;
        std::vector<StoredTensor> groups;
        for (const Value vector : flat_masters_in(entry.value)) {
            const auto tensor = Archive::is_tensor(vector) ? archive.tensor(vector) : std::nullopt;
            if (!tensor || !is_vector(*tensor)) return training;
            groups.push_back(*tensor);
        }
        if (groups.empty()) continue;
        const auto vectors = vectors_of(archive, entry.key.as_string(), entry.value, groups);
        const std::vector<Candidate> candidates = candidates_of(archive, *weights, root.find("buffer_names"));
        const auto matched = Matcher{archive, candidates, groups}.match();
        if (!vectors || !matched) return training;
        Splitter{training, candidates, *matched}.split(*vectors);
        return training;
    }
    return training;
}

}  // namespace tpx::formats
