// SPDX-License-Identifier: Apache-2.0
#include "formats/state/common_objects.hpp"

#include "formats/driver.hpp"
#include "formats/encodings/torch/archive.hpp"
#include "formats/encodings/torch/keep_alive.hpp"
#include "formats/encodings/torch/tree_copy.hpp"
#include "formats/state/common_state.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

namespace tpx::formats::megatron {
namespace {

using torch::Document;
using torch::Entry;
using torch::Kind;
using torch::Value;

constexpr std::string_view group_prefix = "optimizer.param_groups.";
constexpr std::string_view optimizer_prefix = "optimizer.";
constexpr std::string_view schedule_key = "opt_param_scheduler";

/// Splits a key such as "0.lr" into 0 and "lr"; unset for other keys.
std::optional<std::pair<int, std::string_view>> group_key(std::string_view text) {
    int number = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || number < 0 || end == text.data() + text.size() || *end != '.') return std::nullopt;
    return std::pair{number, text.substr(static_cast<std::size_t>(end - text.data()) + 1)};
}

class Restorer {
public:
    explicit Restorer(Checkpoint& checkpoint) : checkpoint_{checkpoint} {}

    /// Megatron's args as a dict, if there are any. Megatron-FSDP stores a Namespace, conversions a dict.
    std::optional<Value> settings() {
        const std::vector<Object>& objects = checkpoint_.catalogue.objects;
        const auto args = std::ranges::find(objects, "args", &Object::name);
        if (args == objects.end()) return std::nullopt;
        const Value stored = read(*args);
        by_fsdp_ = stored.is(Kind::object);
        const Value settings = by_fsdp_ ? stored.as_object().state : stored;
        const bool is_megatrons = settings.is(Kind::dict) && settings.find("tensor_model_parallel_size");
        return is_megatrons ? std::optional{settings} : std::nullopt;
    }

    void restore() {
        std::vector<Object>& objects = checkpoint_.catalogue.objects;
        const auto args = settings();
        if (!args) return;
        const bool has_groups = are_megatrons(objects);
        std::erase_if(objects, [&](const Object& object) { return take(object, *args, has_groups); });
        if (has_groups) add_optimizer();
        if (!schedule_.empty()) entries_.push_back({document_.string(schedule_key), document_.dict(schedule_)});
        document_.set_root(document_.dict(entries_));
        checkpoint_.common = keep_alive(std::move(document_));
        checkpoint_.common_storages = std::move(contents_);
        if (const auto iteration = iteration_in(*checkpoint_.common)) checkpoint_.iteration = iteration;
    }

private:
    Value read(const Object& object) {
        const std::filesystem::path path = checkpoint_.catalogue.path(object.file);
        const Fd fd = open_file(path, O_RDONLY);
        const torch::Archive archive = torch::Archive::open(
            {&fd, fmt::format("{}: object '{}'", path.string(), object.name), object.offset, object.length});
        torch::CarriedTensors carried{document_, contents_, "c"};
        return torch::TreeCopy{document_, true}.copy(archive.root(),
                                                     [&](Value value) { return carried.carry(&archive, value); });
    }

    /// Whether all param_groups are numbered, as Megatron's are. Groups of two optimizers were joined.
    static bool are_megatrons(const std::vector<Object>& objects) {
        const auto is_group = [](const Object& object) { return object.name.starts_with(group_prefix); };
        const auto is_numbered = [](const Object& object) {
            const auto key = group_key(std::string_view{object.name}.substr(group_prefix.size()));
            return key && key->second.find('.') == key->second.npos;
        };
        return std::ranges::any_of(objects, is_group) && std::ranges::all_of(objects, [&](const Object& object) {
                   return !is_group(object) || is_numbered(object);
               });
    }

    /// Moves an object into the common state. Returns false if it must stay an object.
    bool take(const Object& object, Value settings, bool has_groups) {
        const std::string_view name = object.name;
        // State of single ranks, which is valid only for one layout.
        if (name.find('/') != name.npos || name == "rerun_state_machine") return false;
        if (name.starts_with(group_prefix)) {
            if (!has_groups) return false;
            const auto [number, key] = *group_key(name.substr(group_prefix.size()));
            groups_[number].push_back({document_.string(key), read(object)});
        } else if (name.starts_with(optimizer_prefix)) {
            if (!has_groups) return false;
            optimizer_.push_back({document_.string(name.substr(optimizer_prefix.size())), read(object)});
        } else if (name.starts_with(schedule_key) && name.substr(schedule_key.size()).starts_with('.')) {
            schedule_.push_back({document_.string(name.substr(schedule_key.size() + 1)), read(object)});
        } else if (by_fsdp_ && name.find('.') != name.npos) {
            return false;
        } else {
            entries_.push_back({document_.string(name), name == "args" ? namespace_of(settings) : read(object)});
        }
        return true;
    }

    Value namespace_of(Value settings) {
        const Value args = document_.object(document_.global("argparse", "Namespace"), document_.tuple({}),
                                            torch::Construction::allocate);
        document_.set_state(args, settings);
        return args;
    }

    void add_optimizer() {
        std::vector<Value> list;
        for (const auto& [number, entries] : groups_) list.push_back(document_.dict(entries));
        const Value inner = document_.with_key(document_.dict(), "param_groups", document_.list(list));
        entries_.push_back(
            {document_.string("optimizer"), document_.with_key(document_.dict(optimizer_), "optimizer", inner)});
    }

    Checkpoint& checkpoint_;
    Document document_;
    torch::Contents contents_;
    std::vector<Entry> entries_;
    std::vector<Entry> optimizer_;              // except its groups
    std::map<int, std::vector<Entry>> groups_;  // by number
    std::vector<Entry> schedule_;               // if it is not one object
    bool by_fsdp_ = false;
};

}  // namespace

void read_args(Checkpoint& checkpoint) {
    const auto is_megatrons = [](const Tensor& tensor) {
        constexpr std::array<std::string_view, 4> starts{
            "decoder.layers.", "encoder.layers.", "language_model.decoder.layers.", "model.module.decoder.layers."};
        return std::ranges::any_of(starts, [&](std::string_view start) { return tensor.name.starts_with(start); });
    };
    if (std::ranges::none_of(checkpoint.catalogue.tensors, is_megatrons)) return;
    Restorer restorer{checkpoint};  // owns the document that contains the args
    if (const auto args = restorer.settings()) checkpoint.config = scalars_of(*args);
}

void restore_common(Checkpoint& checkpoint) {
    if (checkpoint.format->values == ValueStorage::objects && !checkpoint.common) Restorer{checkpoint}.restore();
}

}  // namespace tpx::formats::megatron
