// SPDX-License-Identifier: Apache-2.0
#include "formats/state/carried_state.hpp"

#include "formats/driver.hpp"
#include "formats/encodings/torch/tree_copy.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>

namespace tpx::formats {
namespace {

using torch::Entry;
using torch::Kind;
using torch::Value;

class Collector {
public:
    Collector(const Checkpoint& source, torch::Document& document, torch::Contents& contents)
        : source_{source}, document_{document}, contents_{contents} {}

    CarriedState collect() {
        if (source_.common) add_common(nullptr, *source_.common);
        if (source_.format->values == ValueStorage::engine_files) add_deepspeed();
        if (source_.format->values == ValueStorage::objects) add_objects();
        return std::move(result_);
    }

private:
    /// A copy of `value`, as plain data.
    Value plain(const torch::Archive* archive, Value value) {
        torch::CarriedTensors tensors{document_, contents_};
        torch::TreeCopy tree{document_, false};
        return tree.copy(value, [&](Value object) {
            const auto own = tensors.carry(source_.common_storages, object);
            return own ? own : tensors.carry(archive, object);
        });
    }

    void add(std::vector<Entry>& entries, std::string_view key, Value value) {
        const auto known = std::ranges::find_if(
            entries, [&](const Entry& entry) { return entry.key.is(Kind::string) && entry.key.as_string() == key; });
        if (known == entries.end()) entries.push_back({document_.string(key), value});
    }

    /// Adds Megatron's common state; the optimizer's part goes to result_.optimizer.
    void add_common(const torch::Archive* archive, Value common) {
        for (const Entry& entry : common.entries()) {
            if (!entry.key.is(Kind::string)) continue;
            const std::string_view key = entry.key.as_string();
            if (key == "optimizer")
                add_optimizer(plain(archive, entry.value));
            else if (key != "content_metadata")
                add(result_.common, key, plain(archive, entry.value));
        }
    }

    /// Adds {'optimizer': {'param_groups': ...}, ...}, or several such dicts by number, whose groups are joined.
    void add_optimizer(Value optimizer) {
        if (!optimizer.is(Kind::dict)) return;
        std::vector<Value> groups;
        const auto add_one = [&](Value one) {
            for (const Entry& entry : one.entries()) {
                const bool inner = entry.key.is(Kind::string) && entry.key.as_string() == "optimizer";
                const auto own = inner && entry.value.is(Kind::dict) ? entry.value.find("param_groups") : std::nullopt;
                if (own && own->is(Kind::list))
                    groups.insert(groups.end(), own->items().begin(), own->items().end());
                else if (entry.key.is(Kind::string) && entry.key.as_string() != "param_state_sharding_type")
                    add(result_.optimizer, entry.key.as_string(), entry.value);
            }
        };
        const bool several = std::ranges::all_of(optimizer.entries(), [](const Entry& entry) {
            return entry.key.is(Kind::integer) && entry.value.is(Kind::dict);
        });
        if (!several)
            add_one(optimizer);
        else
            for (const Entry& entry : optimizer.entries()) add_one(entry.value);
        if (!groups.empty()) add(result_.optimizer, "param_groups", document_.list(groups));
    }

    /// Adds the non-tensor state of the first model file and the first optimizer file.
    void add_deepspeed() {
        static constexpr std::array<std::string_view, 9> own{
            "module",       "optimizer",     "param_shapes", "frozen_param_shapes",           "frozen_param_fragments",
            "buffer_names", "shared_params", "ds_config",    "checkpoint_parallel_dimensions"};
        for (const FileEntry& file : source_.catalogue.files) {
            const std::string name = file.path.filename().string();
            if (name.ends_with("mp_rank_00_model_states.pt") && result_.common.empty()) {
                const torch::Archive archive = torch::Archive::open(source_.catalogue.directory / file.path);
                for (const Entry& entry : archive.root().entries()) {
                    if (!entry.key.is(Kind::string)) continue;
                    const std::string_view key = entry.key.as_string();
                    if (std::ranges::find(own, key) == own.end())
                        add(result_.common, key, plain(&archive, entry.value));
                }
            }
            if (name.ends_with("_optim_states.pt") && result_.optimizer.empty()) add_groups(file.path);
        }
    }

    void add_groups(const std::filesystem::path& file) {
        const torch::Archive archive = torch::Archive::open(source_.catalogue.directory / file);
        const auto state = archive.root().find("optimizer_state_dict");
        if (!state || !state->is(Kind::dict)) return;
        Value holder = *state;
        for (const char* key : {"optimizer_state_dict", "base_optimizer_state"}) {
            const auto inner = holder.find(key);
            if (inner && inner->is(Kind::dict)) holder = *inner;
        }
        const auto groups = holder.find("param_groups");
        if (!groups || !groups->is(Kind::list)) return;
        std::vector<Value> list;
        for (const Value group : groups->items()) {
            std::vector<Entry> entries;  // without the numbers of flat tensors, which the new file lacks
            for (const Entry& entry : group.is(Kind::dict) ? group.entries() : std::span<const Entry>{})
                if (!entry.key.is(Kind::string) || entry.key.as_string() != "params") entries.push_back(entry);
            list.push_back(plain(&archive, document_.dict(entries)));
        }
        add(result_.optimizer, "param_groups", document_.list(list));
    }

    void add_objects() {
        const Catalogue& catalogue = source_.catalogue;
        for (const Object& object : catalogue.objects) {
            const std::filesystem::path path = catalogue.path(object.file);
            const Fd fd = open_file(path, O_RDONLY);
            const torch::Archive archive = torch::Archive::open(
                {&fd, fmt::format("{}: object '{}'", path.string(), object.name), object.offset, object.length});
            result_.objects.emplace_back(object.name, plain(&archive, archive.root()));
        }
    }

    const Checkpoint& source_;
    torch::Document& document_;
    torch::Contents& contents_;
    CarriedState result_;
};

}  // namespace

std::vector<std::string> state_keys(const Checkpoint& source) {
    std::vector<std::string> keys;
    if (source.format->values == ValueStorage::one_file) {
        const torch::Archive archive = torch::Archive::open(source.catalogue.path(0));
        if (!archive.root().is(Kind::dict)) return keys;
        const std::vector<torch::NamedValue> tensors = archive.tensor_values();
        const auto holds_tensors = [&](std::string_view key) {
            return std::ranges::any_of(tensors, [&](const torch::NamedValue& tensor) {
                return tensor.name == key || tensor.name.starts_with(fmt::format("{}.", key));
            });
        };
        for (const Entry& entry : archive.root().entries())
            if (entry.key.is(Kind::string) && !holds_tensors(entry.key.as_string()))
                keys.emplace_back(entry.key.as_string());
        return keys;
    }
    torch::Document document;
    torch::Contents contents;
    for (const Entry& entry : Collector{source, document, contents}.collect().common)
        keys.emplace_back(entry.key.as_string());
    return keys;
}

CarriedState carried_state(const Content& content, torch::Document& document, torch::Contents& contents) {
    return content.source == nullptr ? CarriedState{} : Collector{*content.source, document, contents}.collect();
}

}  // namespace tpx::formats
