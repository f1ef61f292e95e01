// SPDX-License-Identifier: Apache-2.0
#include "formats/state/read_state.hpp"

#include "formats/driver.hpp"
#include "formats/encodings/archive_at.hpp"
#include "formats/encodings/safetensors/header.hpp"
#include "formats/state/differences.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"
#include "lib/core/path.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace tpx::formats {
namespace {

namespace fs = std::filesystem;
using torch::Kind;
using torch::Value;

/// Whether rank files and DeepSpeed's files contain tensors of the catalogue under this key.
bool has_catalogued(std::string_view key) {
    constexpr std::array<std::string_view, 7> own{"module",
                                                  "optimizer",
                                                  "optimizer_state_dict",
                                                  "ds_config",
                                                  "base_optimizer_state",
                                                  "fp32_flat_groups",
                                                  "frozen_param_fragments"};
    return key.starts_with("model") || std::ranges::find(own, key) != own.end();
}

bool is_name(Value key) { return key.is(Kind::string) || key.is(Kind::integer); }

std::string name_of(Value key) {
    return key.is(Kind::string) ? std::string{key.as_string()} : std::to_string(key.as_int());
}

class Reader {
public:
    explicit Reader(const Checkpoint& checkpoint) : checkpoint_{checkpoint} {}

    std::vector<StateItem> read() {
        switch (checkpoint_.format->values) {
            case ValueStorage::one_file:
                add_file(checkpoint_.catalogue.files.at(0).path, [](std::string_view) { return true; });
                break;
            case ValueStorage::rank_files:
                for (const FileEntry& file : checkpoint_.catalogue.files) {
                    if (file.path.filename() != "distrib_optim.pt") add_rank_file(file.path, "rank");
                }
                break;
            case ValueStorage::engine_files:
                add_deepspeed();
                break;
            case ValueStorage::common_and_objects:
                add_common();
                add_objects();
                break;
            case ValueStorage::headers:
                add_headers();
                break;
            default:
                if (checkpoint_.common)
                    items_.push_back(
                        {"", "", make_state_node(*checkpoint_.common, nullptr, TensorTreatment::state, ""), {}});
                add_objects();
        }
        return std::move(items_);
    }

private:
    /// Adds each entry of a file's dict as an item.
    template <class Catalogued>
    void add_file(const fs::path& file, Catalogued&& catalogued) {
        const torch::Archive archive = torch::Archive::open(checkpoint_.catalogue.directory / file);
        const auto add = [&](const std::string& name, Value value, bool known) {
            const TensorTreatment tensors = known ? TensorTreatment::catalogue : TensorTreatment::state;
            items_.push_back({file.string(), name, make_state_node(value, &archive, tensors, name), {}});
        };
        const bool named =
            archive.root().is(Kind::dict) &&
            std::ranges::all_of(archive.root().entries(), [](const torch::Entry& entry) { return is_name(entry.key); });
        if (!named) return add("", archive.root(), catalogued(""));
        for (const torch::Entry& entry : archive.root().entries()) {
            const std::string key = name_of(entry.key);
            add(key, entry.value, catalogued(key));
        }
    }

    /// The same, but adds only the differences from the first file of this `kind`.
    void add_rank_file(const fs::path& file, const std::string& kind) {
        const std::size_t begin = items_.size();
        add_file(file, has_catalogued);
        const auto [known, is_first] = firsts_.try_emplace(kind, begin);
        if (is_first) {
            ends_[kind] = items_.size();
            return;
        }
        std::vector<StateItem> rest;
        for (std::size_t i = begin; i < items_.size(); ++i) {
            StateItem& item = items_[i];
            const auto first = std::find_if(items_.begin() + static_cast<std::ptrdiff_t>(known->second),
                                            items_.begin() + static_cast<std::ptrdiff_t>(ends_[kind]),
                                            [&](const StateItem& other) { return other.name == item.name; });
            const bool has_first = first != items_.begin() + static_cast<std::ptrdiff_t>(ends_[kind]);
            if (item.node.kind == StateNode::Kind::tensors) continue;
            if (has_first) {
                auto other = differences(item.node, first->node);
                if (!other) continue;
                item.node = std::move(*other);
                item.differs_from = first->file;
            }
            rest.push_back(std::move(item));
        }
        items_.resize(begin);
        std::ranges::move(rest, std::back_inserter(items_));
    }

    void add_deepspeed() {
        std::vector<fs::path> files;
        for (const FileEntry& file : checkpoint_.catalogue.files) files.push_back(file.path);
        std::ranges::sort(files);
        for (const fs::path& file : files) {
            const std::string name = file.filename().string();
            if (name.ends_with("_optim_states.pt"))
                add_rank_file(file, "optimizer");
            else if (name == "optimizer_state.pt" ||
                     (name.ends_with("_model_states.pt") && name.find("mp_rank_") != name.npos &&
                      !name.starts_with("layer_")))
                add_rank_file(file, name == "optimizer_state.pt" ? name : "model");
        }
    }

    void add_common() {
        if (path_exists(checkpoint_.catalogue.directory / "common.pt"))
            add_file("common.pt", [](std::string_view) { return false; });
        else if (checkpoint_.common)
            for (const torch::Entry& entry : checkpoint_.common->entries()) {
                const std::string key = is_name(entry.key) ? name_of(entry.key) : "";
                items_.push_back({"", key, make_state_node(entry.value, nullptr, TensorTreatment::state, key), {}});
            }
    }

    void add_objects() {
        const Catalogue& catalogue = checkpoint_.catalogue;
        std::vector<const Object*> objects;
        for (const Object& object : catalogue.objects) objects.push_back(&object);
        std::ranges::sort(objects, [&](const Object* a, const Object* b) {
            return std::tie(catalogue.files[a->file].path, a->offset) <
                   std::tie(catalogue.files[b->file].path, b->offset);
        });
        Fd fd;
        for (std::size_t i = 0; i < objects.size(); ++i) {
            const fs::path path = catalogue.path(objects[i]->file);
            if (i == 0 || objects[i]->file != objects[i - 1]->file) fd = open_file(path, O_RDONLY);
            torch::FileRange range = range_of(catalogue, *objects[i], fd);
            range.path = fmt::format("{}: object '{}'", path.string(), objects[i]->name);
            StateNode node = read_object(range, objects[i]->name);
            items_.push_back({catalogue.files[objects[i]->file].path.string(), objects[i]->name, std::move(node), {}});
        }
    }

    /// Objects are usually torch.save archives, but may be any bytes.
    static StateNode read_object(const torch::FileRange& range, const std::string& name) {
        std::string start(std::min<std::uint64_t>(range.length, 2), '\0');
        read_at(*range.fd, range.offset, std::as_writable_bytes(std::span{start}), range.path);
        if (start == "PK" || (start.size() == 2 && start[0] == '\x80')) {
            const torch::Archive archive = torch::Archive::open(range);
            return make_state_node(archive.root(), &archive, TensorTreatment::state, name);
        }
        std::string bytes(range.length, '\0');
        read_at(*range.fd, range.offset, std::as_writable_bytes(std::span{bytes}), range.path);
        return make_bytes_node(std::move(bytes));
    }

    /// Adds the entries of headers' __metadata__, except the format's own keys.
    void add_headers() {
        for (const FileEntry& file : checkpoint_.catalogue.files) {
            const fs::path path = checkpoint_.catalogue.directory / file.path;
            for (const auto& [key, text] : safetensors::read_header(path).metadata) {
                if (key == "format" || key.starts_with("DCP_") || key.starts_with("TPX_")) continue;
                items_.push_back({file.path.string(), key, {.kind = StateNode::Kind::string, .text = text}, {}});
            }
        }
    }

    const Checkpoint& checkpoint_;
    std::vector<StateItem> items_;
    std::map<std::string, std::size_t> firsts_;  // by kind of file: the first item of the first one
    std::map<std::string, std::size_t> ends_;    // by kind of file: the end of the first one's items
};

}  // namespace

std::vector<StateItem> read_state(const Checkpoint& checkpoint) { return Reader{checkpoint}.read(); }

}  // namespace tpx::formats
