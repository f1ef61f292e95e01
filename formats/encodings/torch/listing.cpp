// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/archive.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <unordered_set>

namespace tpx::torch {
namespace {

constexpr std::size_t longest_name = 4096;

struct Place {
    std::string name;
    Value value;
};

std::string key_name(Value key) {
    if (key.is(Kind::string)) return std::string{key.as_string()};
    return key.is(Kind::integer) ? std::to_string(key.as_int()) : key.describe();
}

/// Limits the names of a file of `length` bytes: with few bytes, a pickle can refer to one tensor many times, or nest
/// values so deep that their names become long.
class NameBudget {
public:
    explicit NameBudget(std::uint64_t length) : count_{length / 48 + 65536}, bytes_{8 * length + (16 << 20)} {}

    void charge_tensor() {
        if (count_-- == 0) throw failure("the file names more tensors than a file of its size can contain");
    }
    void charge_name(std::string_view name) {
        if (name.size() > bytes_)
            throw failure("the names of its tensors are longer in total than a file of its size needs");
        bytes_ -= name.size();
    }

private:
    std::uint64_t count_;
    std::uint64_t bytes_;
};

/// Appends the children of `parent` and their names to `places`, in order.
class Children {
public:
    Children(const Place& parent, std::vector<Place>& places, NameBudget& budget)
        : parent_{parent}, places_{places}, budget_{budget} {}

    void add(Value value) {
        switch (value.kind()) {
            case Kind::tuple:
            case Kind::list:
                return add(value.items());
            case Kind::dict:
                return add(value.entries());
            case Kind::object: {
                const Object& object = value.as_object();
                add(object.args.items());
                add(object.items());
                add(object.entries());
                return add_state(object.state);
            }
            default:
                return;
        }
    }

private:
    void add(std::string_view key, Value value) {
        if (!value.is_node()) return;
        std::string name = parent_.name.empty() ? std::string{key} : fmt::format("{}.{}", parent_.name, key);
        if (name.size() > longest_name) throw failure("a name of more than {} characters", longest_name);
        budget_.charge_name(name);
        places_.push_back({std::move(name), value});
    }

    void add(std::span<const Value> items) {
        for (std::size_t i = 0; i < items.size(); ++i) add(std::to_string(i), items[i]);
    }

    void add(std::span<const Entry> entries) {
        for (const Entry& entry : entries) add(key_name(entry.key), entry.value);
    }

    /// Attributes are named as if they were the object's own entries.
    void add_state(Value state) {
        if (state.is(Kind::dict)) return add(state.entries());
        if (!state.is(Kind::tuple)) return;
        for (const Value part : state.items()) {
            if (part.is(Kind::dict))
                add(part.entries());
            else
                add("state", part);
        }
    }

    const Place& parent_;
    std::vector<Place>& places_;
    NameBudget& budget_;
};

}  // namespace

std::vector<NamedValue> Archive::tensor_values() const {
    std::vector<NamedValue> result;
    NameBudget budget{range_.length};
    std::unordered_set<Value, ValueHash> met;
    std::vector<Place> waiting{{"", root()}};
    while (!waiting.empty()) {
        const Place place = std::move(waiting.back());
        waiting.pop_back();
        in_context([&] { return fmt::format("{}: tensor '{}'", range_.path.string(), place.name); },
                   [&] {
                       if (is_tensor(place.value)) {
                           budget.charge_tensor();
                           result.push_back({place.name, place.value});
                       } else if (met.insert(place.value).second) {
                           const auto first = static_cast<std::ptrdiff_t>(waiting.size());
                           Children{place, waiting, budget}.add(place.value);
                           std::reverse(waiting.begin() + first, waiting.end());
                       }
                   });
    }
    return result;
}

std::vector<NamedTensor> Archive::tensors() const {
    std::vector<NamedTensor> result;
    for (NamedValue& named : tensor_values()) {
        in_context([&] { return fmt::format("{}: tensor '{}'", range_.path.string(), named.name); },
                   [&] {
                       result.push_back({named.name, tensor(named.value).value()});
                   });
    }
    return result;
}

}  // namespace tpx::torch
