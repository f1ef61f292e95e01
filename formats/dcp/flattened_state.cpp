// SPDX-License-Identifier: Apache-2.0
#include "formats/dcp/flattened_state.hpp"

#include "formats/driver.hpp"
#include "formats/encodings/torch/archive.hpp"
#include "formats/encodings/torch/keep_alive.hpp"
#include "formats/encodings/torch/tree_copy.hpp"
#include "formats/state/carried_state.hpp"
#include "formats/state/rng_states.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace tpx::formats {
namespace {

using torch::Archive;
using torch::Document;
using torch::Entry;
using torch::Kind;
using torch::Value;

/// The names that tensors of the content already have.
using Names = std::unordered_set<std::string_view>;

Names names_of(const Content& content) {
    Names names;
    for (const Tensor& tensor : content.tensors) names.insert(tensor.name);
    for (const TensorView& view : content.views) names.insert(view.name);
    return names;
}

bool is_mapping(Value value) {
    if (value.is(Kind::dict)) return true;
    return value.is(Kind::object) && (value.class_name() == "OrderedDict" || value.class_name() == "defaultdict");
}

bool is_sequence(Value value) { return value.is(Kind::list) || value.is(Kind::tuple); }

/// Whether `value` is or contains a tensor.
bool holds_tensors(Value value) {
    std::vector<Value> waiting{value};
    std::unordered_set<Value, torch::ValueHash> met;
    while (!waiting.empty()) {
        const Value one = waiting.back();
        waiting.pop_back();
        if (!one.is_node() || !met.insert(one).second) continue;
        if (Archive::is_tensor(one)) return true;
        append_children(one, waiting);
    }
    return false;
}

/// How many times values occur below `root`, including `root`: a value counts once for each reference to it.
std::size_t places_in(Value root) {
    std::vector<Value> waiting{root};
    std::unordered_set<Value, torch::ValueHash> met;
    std::size_t places = 0;
    while (!waiting.empty()) {
        const Value one = waiting.back();
        waiting.pop_back();
        ++places;
        if (one.is_node() && met.insert(one).second) append_children(one, waiting);
    }
    return places;
}

class Flattener {
public:
    explicit Flattener(const Content& content) : names_{names_of(content)} {}

    /// Adds the state of a torch.save file: everything if names are kept, else the top-level entries without tensors.
    void add(const Archive& archive) {
        const std::vector<torch::NamedValue> tensors = archive.tensor_values();
        const bool same = std::ranges::all_of(
            tensors, [&](const auto& named) { return names_.contains(named.name) || !parts_of(named.name).empty(); });
        if (!is_mapping(archive.root())) return;
        most_visits_ += most_copies * places_in(archive.root());
        for (const Entry& entry : archive.root().entries()) {
            if (!same && holds_tensors(entry.value)) continue;
            visit({document_.string(name_of(entry.key))}, name_of(entry.key), entry.value);
        }
        if (same) objects_.paths = paths();
    }

    /// Adds the state of other formats: one entry for each key, except optimizer state, which PyTorch looks up value by
    /// value.
    void add(const CarriedState& carried, bool with_groups, const torch::Contents& contents) {
        contents_ = &contents;
        for (const Entry& entry : carried.common)
            if (!names_.contains(entry.key.as_string()))
                add_leaf({entry.key}, std::string{entry.key.as_string()}, entry.value);
        for (const Entry& entry : carried.optimizer) {
            if (!with_groups && entry.key.as_string() == "param_groups") continue;
            most_visits_ += most_copies * places_in(entry.value);
            visit({document_.string("optimizer"), entry.key}, fmt::format("optimizer.{}", entry.key.as_string()),
                  entry.value);
        }
        objects_.paths = paths();
    }

    /// Adds Megatron's RNG states, which PyTorch checkpoints do not have, under their own names.
    void add(std::vector<megatron::RngObject> states) {
        for (megatron::RngObject& state : states) {
            const Value name = document_.string(state.name);
            path_entries_.push_back({name, document_.tuple(std::vector<Value>{name})});
            objects_.made.push_back({std::move(state.name), std::move(state.archive)});
        }
        objects_.paths = paths();
    }

    NewObjects finish() { return std::move(objects_); }

private:
    using Path = std::vector<Value>;

    static constexpr std::size_t deepest = 64;
    // A shared value is written once for each reference: 40 dicts that each refer to the next one four times would
    // become 4^40 entries.
    static constexpr std::size_t most_copies = 16;

    static std::string name_of(Value key) {
        if (key.is(Kind::string)) return std::string{key.as_string()};
        return key.is(Kind::integer) ? std::to_string(key.as_int()) : key.describe();
    }

    /// The names of the content's tensors that are parts of the file's tensor `name`: NAME.PART.
    std::vector<std::string_view> parts_of(const std::string& name) const {
        std::vector<std::string_view> parts;
        const std::string prefix = name + ".";
        std::ranges::copy_if(names_, std::back_inserter(parts),
                             [&](std::string_view other) { return other.starts_with(prefix); });
        return parts;
    }

    void add_parts(const Path& path, const std::string& name) {
        for (const std::string_view part : parts_of(name)) {
            Path own = path;
            own.push_back(document_.string(part.substr(name.size() + 1)));
            path_entries_.push_back({document_.string(part), document_.tuple(own)});
        }
    }

    void visit(const Path& path, const std::string& name, Value value) {
        if (++visits_ > most_visits_)
            throw failure(
                "'{}': shared values are referenced so often that PyTorch's DCP would need more than {} entries", name,
                most_visits_);
        const bool go_on = path.size() < deepest;
        if (names_.contains(name)) {
            path_entries_.push_back({document_.string(name), document_.tuple(path)});
        } else if (contents_ == nullptr && Archive::is_tensor(value)) {
            add_parts(path, name);
        } else if (go_on && is_mapping(value)) {
            for (const Entry& entry : value.entries()) step(path, name, name_of(entry.key), {}, entry.value);
        } else if (go_on && is_sequence(value) && is_branch(value)) {
            std::int64_t number = 0;
            for (const Value item : value.items()) {
                step(path, name, std::to_string(number), number, item);
                ++number;
            }
        } else if (contents_ != nullptr || !holds_tensors(value)) {
            add_leaf(path, name, value);
        }
    }

    void step(Path path, const std::string& name, const std::string& key, std::optional<std::int64_t> number,
              Value value) {
        path.push_back(number ? document_.integer(*number) : document_.string(key));
        visit(path, fmt::format("{}.{}", name, key), value);
    }

    /// Whether the items of a list or tuple are separate entries: tuples with tensors, and lists with dicts or tensors.
    /// Tensors of carried state do not count, because they are part of values.
    bool is_branch(Value sequence) const {
        if (sequence.is(Kind::tuple)) return contents_ == nullptr && holds_tensors(sequence);
        return std::ranges::any_of(sequence.items(), [&](Value item) {
            return is_mapping(item) || (contents_ == nullptr && holds_tensors(item));
        });
    }

    void add_leaf(const Path& path, const std::string& name, Value value) {
        const torch::Contents none;
        const torch::ArchiveFrame frame = torch::frame_archive(value, {}, contents_ == nullptr ? none : *contents_);
        objects_.made.push_back({name, frame.runs.at(0)});
        path_entries_.push_back({document_.string(name), document_.tuple(path)});
    }

    std::shared_ptr<const Value> paths() {
        Document document;
        const Value dict = document_.dict(path_entries_);
        document.set_root(torch::TreeCopy{document, false}.copy(dict, [](Value) { return std::nullopt; }));
        return keep_alive(std::move(document));
    }

    Names names_;
    Document document_;
    std::vector<Entry> path_entries_;
    const torch::Contents* contents_ = nullptr;  // of carried tensors, which are parts of values
    NewObjects objects_;
    std::size_t visits_ = 0;
    std::size_t most_visits_ = 10'000;
};

}  // namespace

NewObjects flattened_state(const Content& content) {
    Flattener flattener{content};
    if (content.source->format->values == ValueStorage::one_file) {
        if (!path_is_file(content.source->catalogue.path(0))) return {};
        flattener.add(Archive::open(content.source->catalogue.path(0)));
        return flattener.finish();
    }
    Document document;
    torch::Contents contents;
    const CarriedState carried = carried_state(content, document, contents);
    flattener.add(carried, !content.adam, contents);
    flattener.add(megatron::rng_objects_of(*content.source));
    return flattener.finish();
}

}  // namespace tpx::formats
