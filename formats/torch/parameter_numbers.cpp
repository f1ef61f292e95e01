// SPDX-License-Identifier: Apache-2.0
#include "formats/torch/parameter_numbers.hpp"

#include "formats/state/optimizer_order.hpp"
#include "formats/state/training_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

namespace tpx::formats {
namespace {

using torch::Archive;
using torch::Entry;
using torch::Kind;
using torch::StoredTensor;
using torch::Value;
using Numbers = std::vector<std::vector<std::int64_t>>;

/// Elements `begin` to `end` of a tensor in C order.
StoredTensor run_of(const StoredTensor& tensor, Index begin, Index end) {
    StoredTensor run = tensor;
    run.shape = {end - begin};
    run.strides = {1};
    run.offset += static_cast<std::uint64_t>(begin * itemsize(tensor.dtype));
    run.storage_offset += static_cast<std::uint64_t>(begin);
    return run;
}

bool are_equal(const Archive& archive, const StoredTensor& a, const StoredTensor& b) {
    constexpr Index first = Index{1} << 10, others = Index{1} << 20;  // most weights differ at once
    const Index elements = volume(a.shape);
    for (Index begin = 0, end = 0; begin < elements; begin = end) {
        end = std::min(begin + (begin == 0 ? first : others), elements);
        if (archive.elements(run_of(a, begin, end)) != archive.elements(run_of(b, begin, end))) return false;
    }
    return true;
}

/// Whether two weights may be one tied matrix that is stored twice.
bool may_be_tied(const StoredTensor& a, const StoredTensor& b) {
    const auto plain = [](const StoredTensor& t) {
        return t.shape.size() > 1 && volume(t.shape) > 0 && itemsize(t.dtype) > 0 && !t.compressed && !t.conjugated &&
               !t.negated && t.strides == row_major(t.shape);
    };
    return a.dtype == b.dtype && a.shape == b.shape && plain(a) && plain(b);
}

class Resolver {
public:
    Resolver(const NumberedModel& model, Value state_dict) : model_{model}, state_dict_{state_dict} {}

    std::optional<std::map<std::int64_t, std::string>> resolve(std::vector<std::string>& notes) {
        std::map<std::int64_t, std::string> names;
        if (!read_groups(names)) return names;
        std::vector<std::string> found = parameters_by_number(entries({}), numbers_, shapes());
        if (found.empty()) found = without_tied(notes);
        if (found.empty()) return std::nullopt;
        for (std::size_t k = 0; k < found.size(); ++k) names[static_cast<std::int64_t>(k)] = found[k];
        return names;
    }

private:
    using Tied = std::map<std::size_t, std::size_t>;  // numbers of weights, and of earlier ones with equal values

    /// Reads the numbers of each group, and the names in "param_names". Returns whether some numbers have no name.
    bool read_groups(std::map<std::int64_t, std::string>& names) {
        bool has_unnamed = false;
        for (const Value group : parameter_groups(state_dict_)) {
            auto& of_group = numbers_.emplace_back();
            auto param_names = group.find("param_names");
            if (param_names && !param_names->is(Kind::list)) param_names.reset();
            const auto params = group.at("params").items();
            for (std::size_t k = 0; k < params.size(); ++k) {
                if (!params[k].is(Kind::integer)) continue;
                of_group.push_back(params[k].as_int());
                if (param_names && k < param_names->items().size() && param_names->items()[k].is(Kind::string))
                    names[params[k].as_int()] = unwrapped(param_names->items()[k].as_string());
                else
                    has_unnamed = true;
            }
        }
        return has_unnamed;
    }

    const StoredTensor& weight(std::size_t w) const { return model_.tensors[model_.weights[w].second].tensor; }

    std::vector<StateDictEntry> entries(const Tied& tied) const {
        std::vector<StateDictEntry> entries;
        std::set<std::pair<std::string_view, std::uint64_t>> met;
        for (std::size_t w = 0; w < model_.weights.size(); ++w) {
            const StoredTensor& tensor = weight(w);
            const std::string& name = model_.weights[w].first;
            const bool buffer = is_running_statistic(name) || !(is_real(tensor.dtype) || is_complex(tensor.dtype));
            const bool shared = !met.emplace(tensor.storage, tensor.storage_offset).second;
            entries.push_back({name, tensor.shape, !buffer && !shared && !tied.contains(w)});
        }
        return entries;
    }

    /// Names the parameters without weights that have the same values as earlier ones, if the optimizer has exactly as
    /// many parameters as weights remain.
    std::vector<std::string> without_tied(std::vector<std::string>& notes) const {
        std::size_t count = 0;
        for (const auto& group : numbers_) count += group.size();
        const std::vector<StateDictEntry> all = entries({});
        const auto trained = static_cast<std::size_t>(std::ranges::count(all, true, &StateDictEntry::parameter));
        if (trained <= count) return {};
        const Tied tied = repeated(all);
        if (tied.size() != trained - count) return {};
        std::vector<std::string> found = parameters_by_number(entries(tied), numbers_, shapes());
        for (const auto& [copy, original] : tied) {
            if (found.empty()) break;
            notes.push_back(
                fmt::format("tensor '{}': is tied to '{}', because both have the same values and the optimizer has one "
                            "of them",
                            model_.weights[copy].first, model_.weights[original].first));
        }
        return found;
    }

    Tied repeated(const std::vector<StateDictEntry>& all) const {
        Tied tied;
        for (std::size_t w = 0; w < all.size(); ++w) {
            for (std::size_t other = 0; other < w && all[w].parameter; ++other) {
                if (!all[other].parameter || tied.contains(other) || !may_be_tied(weight(w), weight(other))) continue;
                if (!are_equal(model_.archive, weight(w), weight(other))) continue;
                tied.emplace(w, other);
                break;
            }
        }
        return tied;
    }

    /// The shapes of numbered parameters, from their master weights and their state.
    std::map<std::int64_t, Shape> shapes() const {
        std::map<std::int64_t, Shape> result;
        for (const auto& [parameter, number] : model_.masters)
            note_shape(result, parameter, model_.tensors[number].tensor.shape);
        for (const Entry& state : state_dict_.at("state").entries()) {
            if (!state.key.is(Kind::integer) || !state.value.is(Kind::dict)) continue;
            for (const Entry& one : state.value.entries()) {
                if (!Archive::is_tensor(one.value) || !one.key.is(Kind::string) || one.key.as_string() == "step")
                    continue;
                note_shape(result, state.key.as_int(), model_.archive.tensor(one.value)->shape);
            }
        }
        return result;
    }

    const NumberedModel& model_;
    Value state_dict_;
    Numbers numbers_;  // by group
};

}  // namespace

std::vector<Value> parameter_groups(Value state_dict) {
    std::vector<Value> result;
    for (const Value group : state_dict.at("param_groups").items())
        if (group.is(Kind::dict) && group.find("params") && group.at("params").is(Kind::list)) result.push_back(group);
    return result;
}

std::optional<std::map<std::int64_t, std::string>> names_of_numbers(const NumberedModel& model, Value state_dict,
                                                                    std::vector<std::string>& notes) {
    return Resolver{model, state_dict}.resolve(notes);
}

}  // namespace tpx::formats
