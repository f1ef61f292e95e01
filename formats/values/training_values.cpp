// SPDX-License-Identifier: Apache-2.0
#include "formats/values/training_values.hpp"

#include "formats/driver.hpp"
#include "formats/encodings/archive_at.hpp"
#include "formats/state/extra_state.hpp"
#include "formats/state/rng_states.hpp"
#include "formats/state/roles.hpp"
#include "formats/state/value_text.hpp"
#include "formats/values/file_values.hpp"
#include "formats/values/flat_values.hpp"
#include "formats/values/value_paths.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;
using torch::Kind;
using torch::Value;

constexpr std::string_view rng_prefix = "rng_state/";

bool is_model(std::string_view key) {
    return key == "module" || key.starts_with("model") || key == "optimizer" || key == "rng_state";
}

class Collector {
public:
    explicit Collector(const Checkpoint& checkpoint) : checkpoint_{checkpoint} {}

    TrainingValues collect() {
        if (checkpoint_.common) add_dict(*checkpoint_.common, {nullptr, &checkpoint_.common_storages}, "");
        add_rank_files();
        const ValueStorage values = checkpoint_.format->values;
        if (values == ValueStorage::engine_files) add_deepspeed();
        if (values == ValueStorage::one_file) add_torch();
        if (values == ValueStorage::objects || values == ValueStorage::common_and_objects) add_objects();
        add_rng();
        add_file_values(checkpoint_,
                        [&](const std::string& path, std::string text) { add(path, std::move(text), ""); });
        add_training_files();
        return finish();
    }

private:
    struct Key {
        std::string role, path, place;
        friend auto operator<=>(const Key&, const Key&) = default;
    };

    void add(const std::string& path, std::string text, const std::string& place) {
        if (const auto entry = group_path(path); entry && place.empty()) {
            if (!is_default(path, text)) group_of(*entry).settings[std::string{entry->key}].insert(text);
            if (is_bookkeeping(path)) return;
        }
        ValuePath found = classify(path);
        std::set<std::string>& texts = values_[{std::string{found.role}, std::move(found.path), place}];
        if (!found.several) texts.clear();
        texts.insert(std::move(text));
    }

    /// Adds a Hugging Face folder's files of optimizer, scheduler and RNG state, which only copying preserves.
    void add_training_files() {
        for (const fs::path& file : checkpoint_.training_files) {
            const std::string_view role = classify(file.string()).role;
            values_[{std::string{role}, file.string(), ""}] = {content_text(checkpoint_.catalogue.directory / file)};
        }
    }

    SettingGroup& group_of(const GroupPath& path) {
        // Sorts groups by number: 2 before 10.
        const std::string number{path.group};
        const bool counted = number.find_first_not_of("0123456789") == number.npos;
        SettingGroup& group =
            groups_[{std::string{path.optimizer}, counted ? number.size() : std::string::npos, number}];
        group.optimizer = path.optimizer;
        group.group = number;
        return group;
    }

    /// Whether the value at `path` is skipped: bookkeeping that is not an entry of a group.
    static bool is_passed_over(std::string_view path) { return is_bookkeeping(path) && !group_path(path); }

    /// Adds the values in `value` at `path`, or adds the path and the error to unread_.
    void read(const std::string& path, Value value, const TensorBytes& tensors, const std::string& place) {
        FlatValues flat{is_passed_over,
                        [&](const std::string& at, std::string text) { add(at, std::move(text), place); }};
        try {
            flat.read(path, value, tensors);
        } catch (const Error& error) {
            unread_.push_back(fmt::format("{}: {}", path, error.what()));
        }
    }

    void add_dict(Value dict, const TensorBytes& tensors, const std::string& place) {
        for (const torch::Entry& entry : dict.entries()) {
            const std::string key = entry.key.is(Kind::string)    ? std::string{entry.key.as_string()}
                                    : entry.key.is(Kind::integer) ? std::to_string(entry.key.as_int())
                                                                  : entry.key.describe();
            if (place.empty() || !is_model(key)) read(key, entry.value, tensors, place);
        }
    }

    /// Adds values of single ranks, which the common state lacks.
    void add_rank_files() {
        const std::vector<RankValues>& ranks = checkpoint_.rank_values;
        for (std::size_t k = 1; k < ranks.size(); ++k) add_differing(ranks[k].file, is_model);
        for (const RankValues& rank : ranks)
            if (rank.has_extra_states) add_extra_states(rank);
    }

    /// Adds the extra states of TransformerEngine's layers in a rank's file: FP8 scales. torch_dist stores
    /// those of the first tensor rank for all ranks.
    void add_extra_states(const RankValues& rank) {
        const torch::Archive archive = torch::Archive::open(checkpoint_.catalogue.directory / rank.file);
        std::size_t chunk = 0;
        for (const torch::Entry& model : archive.root().entries()) {
            const bool is_dict = model.key.is(Kind::string) && model.key.as_string().starts_with("model") &&
                                 (model.value.is(Kind::dict) || model.value.is(Kind::object));
            if (!is_dict) continue;
            const int first = chunk < rank.first_layers.size() ? rank.first_layers[chunk] : 0;
            ++chunk;
            for (const torch::Entry& entry : model.value.entries()) {
                const bool is_state = entry.key.is(Kind::string) && entry.key.as_string().ends_with("_extra_state");
                if (!is_state || is_empty_extra_state(entry.value, archive)) continue;
                const std::string name = extra_state_of_model(entry.key.as_string(), first);
                const bool of_all = rank.tp == 0 && rank.ep == 0 && name.find(".experts.") == name.npos;
                read(name, entry.value, {.archive = &archive},
                     of_all ? "" : fmt::format("tp {} ep {}", rank.tp, rank.ep));
            }
        }
    }

    /// Adds the values of a rank's file that differ from those of the whole job.
    template <class Skip>
    void add_differing(const fs::path& file, Skip&& skip) {
        const torch::Archive archive = torch::Archive::open(checkpoint_.catalogue.directory / file);
        const std::string place = file.parent_path().empty() ? file.string() : file.parent_path().string();
        const auto differs = [&](const std::string& path, std::string text) {
            const ValuePath found = classify(path);
            const auto known = values_.find({std::string{found.role}, found.path, ""});
            if (known == values_.end() || !known->second.contains(text)) add(path, std::move(text), place);
        };
        for (const torch::Entry& entry : archive.root().entries()) {
            if (!entry.key.is(Kind::string) || skip(entry.key.as_string())) continue;
            const std::string key{entry.key.as_string()};
            in_context([&] { return file.string(); },
                       [&] {
                           FlatValues{is_bookkeeping, differs}.read(key, entry.value,
                                                                    {.archive = &archive, .catalogued = true});
                       });
        }
    }

    void add_deepspeed() {
        std::vector<fs::path> files;
        for (const FileEntry& file : checkpoint_.catalogue.files) files.push_back(file.path);
        std::ranges::sort(files);
        bool first = true;
        for (const fs::path& file : files) {
            const std::string name = file.filename().string();
            const bool states = name.ends_with("_optim_states.pt") || name == "optimizer_state.pt";
            const bool model = name.ends_with("_model_states.pt") && name.find("mp_rank_") != name.npos &&
                               !name.starts_with("layer_") && !name.starts_with("expert_");
            if (states) add_optimizer_file(file);
            if (!model) continue;
            const auto skip = [](std::string_view key) { return key == "module" || key == "optimizer"; };
            if (!first) {
                add_differing(file, skip);
                continue;
            }
            first = false;
            const torch::Archive archive = torch::Archive::open(checkpoint_.catalogue.directory / file);
            for (const torch::Entry& entry : archive.root().entries())
                if (entry.key.is(Kind::string) && !skip(entry.key.as_string()))
                    read(std::string{entry.key.as_string()}, entry.value, {.archive = &archive}, "");
        }
    }

    void add_optimizer_file(const fs::path& file) {
        const torch::Archive archive = torch::Archive::open(checkpoint_.catalogue.directory / file);
        const auto inner = archive.root().find("optimizer_state_dict");
        read("optimizer", inner.value_or(archive.root()), {.archive = &archive, .catalogued = true}, "");
    }

    void add_torch() {
        const torch::Archive archive = torch::Archive::open(checkpoint_.catalogue.path(0));
        const TensorBytes tensors{.archive = &archive, .catalogued = true};
        archive.root().is(Kind::dict) ? add_dict(archive.root(), tensors, "") : read("", archive.root(), tensors, "");
    }

    void add_objects() {
        std::vector<const Object*> objects;
        for (const Object& object : checkpoint_.catalogue.objects)
            if (!object.name.starts_with(rng_prefix) && !is_passed_over(object.name)) objects.push_back(&object);
        std::ranges::stable_sort(objects, {}, &Object::file);
        Fd fd;
        for (std::size_t k = 0; k < objects.size(); ++k) {
            const Object& object = *objects[k];
            if (k == 0 || objects[k - 1]->file != object.file)
                fd = open_file(checkpoint_.catalogue.path(object.file), O_RDONLY);
            in_context([&] { return fmt::format("object '{}'", object.name); }, [&] { add_object(object, fd); });
        }
    }

    /// Adds an object, which is usually a torch.save archive. Objects of single ranks are named KEY/shard_PLACE.
    void add_object(const Object& object, const Fd& fd) {
        const fs::path path = checkpoint_.catalogue.path(object.file);
        std::string start(std::min<std::uint64_t>(object.length, 2), '\0');
        read_at(fd, object.offset, std::as_writable_bytes(std::span{start}), path);
        const std::size_t slash =
            object.name.starts_with("rerun_state_machine") ? object.name.find('/') : std::string::npos;
        const std::string name = object.name.substr(0, slash);
        const std::string place = slash == std::string::npos ? "" : object.name.substr(slash + 1);
        if (start != "PK" && !(start.size() == 2 && start[0] == '\x80')) {
            std::string bytes(object.length, '\0');
            read_at(fd, object.offset, std::as_writable_bytes(std::span{bytes}), path);
            return add(name, bytes_text(bytes), place);
        }
        const torch::Archive archive = torch::Archive::open(range_of(checkpoint_.catalogue, object, fd));
        const bool is_extra_state = object.name.find("._extra_state/") != std::string::npos;
        if (!is_extra_state) return read(name, archive.root(), {.archive = &archive}, place);
        if (is_empty_extra_state(archive.root(), archive)) return;
        const Value root = archive.root();
        const bool wrapped = root.is(Kind::list) && root.items().size() == 1;
        read(extra_state_of_object(name), wrapped ? root.items()[0] : root, {.archive = &archive}, place);
    }

    /// Adds the RNG states of Megatron's formats, by the places of their ranks.
    void add_rng() {
        const megatron::RngStates states{checkpoint_};
        std::size_t objects = 0;
        for (const Object& object : checkpoint_.catalogue.objects)
            objects += object.name.starts_with(rng_prefix) ? 1 : 0;
        std::size_t found = 0;
        std::map<std::tuple<int, int, int>, int> seen;  // several replicas, or ranks, at one place
        states.for_each([&](const megatron::RngPlace& place, const torch::Archive& archive, Value list) {
            ++found;
            const int copy = seen[{place.pp, place.tp, place.ep}]++;
            const std::string more = copy == 0 ? "" : fmt::format(" replica {}", copy);
            read("rng_state", list, {.archive = &archive},
                 fmt::format("pp {} tp {} ep {}{}", place.pp, place.tp, place.ep, more));
        });
        if (found < objects)
            unplaced_ = fmt::format("{} of {} RNG states do not have names like Megatron's", objects - found, objects);
    }

    TrainingValues finish() {
        TrainingValues result{
            .values = {}, .groups = {}, .unread = std::move(unread_), .unplaced = std::move(unplaced_)};
        for (auto& [key, group] : groups_) result.groups.push_back(std::move(group));
        for (const auto& [key, texts] : values_)
            result.values.push_back({key.role, key.path, key.place, fmt::format("{}", fmt::join(texts, "; "))});
        return result;
    }

    const Checkpoint& checkpoint_;
    std::map<Key, std::set<std::string>> values_;
    std::map<std::tuple<std::string, std::size_t, std::string>, SettingGroup> groups_;
    std::vector<std::string> unread_;
    std::string unplaced_;
};

}  // namespace

TrainingValues training_values(const Checkpoint& checkpoint) { return Collector{checkpoint}.collect(); }

}  // namespace tpx::formats
