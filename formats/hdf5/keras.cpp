// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/keras.hpp"

#include "formats/hdf5/keras_model.hpp"
#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>

namespace tpx::formats::hdf5 {
namespace {

constexpr std::string_view vars = "vars";

const GroupFacts* find_group(const Survey& survey, std::string_view path) {
    const auto found = std::ranges::find(survey.groups, path, &GroupFacts::path);
    return found == survey.groups.end() ? nullptr : &*found;
}

/// The group of a legacy file that contains the layers: model_weights or the root; null if it is not a legacy file.
const GroupFacts* legacy_root(const Survey& survey) {
    for (const char* path : {"model_weights", ""}) {
        const GroupFacts* group = find_group(survey, path);
        if (group != nullptr && keras_list(group->attributes, "layer_names")) return group;
    }
    return nullptr;
}

bool is_number(std::string_view text) {
    return !text.empty() && text.size() < 9 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// --- Keras 3

/// The parts of a path LAYER/vars/KEY; unset for other paths.
struct Variable {
    std::string layer;
    std::string key;
};
std::optional<Variable> variable_of(const std::string& path) {
    const auto slash = path.rfind('/');
    if (slash == path.npos) return std::nullopt;
    const std::string group = path.substr(0, slash);
    if (group == vars) return Variable{"", path.substr(slash + 1)};
    if (!group.ends_with("/vars")) return std::nullopt;
    return Variable{group.substr(0, group.size() - 5), path.substr(slash + 1)};
}

/// For each layer, the chain of names of the layers that contain it, and its own name.
class Chains {
public:
    explicit Chains(std::span<const OpenedFile> files) {
        for (const OpenedFile& file : files) {
            for (const GroupFacts& group : file.survey.groups) add(group);
        }
        std::map<std::string, int> uses;
        for (const auto& [layer, own] : own_names_) ++uses[chain(layer)];
        for (const auto& [chain, count] : uses) {
            if (count > 1) ambiguous_.insert(chain);
        }
    }

    std::string name(const std::string& layer) const {
        const std::string names = chain(layer);
        return ambiguous_.contains(names) ? dotted(layer) : names;
    }

private:
    void add(const GroupFacts& group) {
        if (!group.path.ends_with("/vars")) return;
        const std::string layer = group.path.substr(0, group.path.size() - 5);
        const std::string* own = text_of(group.attributes, "name");
        std::string& name = own_names_[layer];
        if (own != nullptr) name = *own;
        if (name.empty()) name = layer.substr(layer.rfind('/') + 1);
    }

    /// Skips containers of layers, which have neither variables nor names.
    std::string chain(const std::string& layer) const {
        if (layer == "optimizer" || layer.starts_with("optimizer/")) return dotted(layer);
        std::string names;
        for (std::size_t end = 0; end != layer.npos;) {
            end = layer.find('/', end == 0 ? 0 : end + 1);
            const auto own = own_names_.find(layer.substr(0, end));
            if (own == own_names_.end()) continue;
            if (!names.empty()) names += '.';
            names += dotted(own->second);
        }
        return names;
    }

    std::map<std::string, std::string> own_names_;  // by layer
    std::set<std::string> ambiguous_;
};

// --- the legacy format

class Legacy {
public:
    explicit Legacy(const OpenedFile& file) : file_{file} {
        for (const DatasetFacts& facts : file.survey.datasets) datasets_[facts.path] = &facts;
        if (const std::string* config = text_of(file.survey.groups.at(0).attributes, "model_config"))
            layers_ = keras_layers(*config);
    }

    std::vector<NamedDataset> read() {
        const GroupFacts* root = legacy_root(file_.survey);
        const std::string base = root->path.empty() ? "" : root->path + "/";
        const auto layers = keras_list(root->attributes, "layer_names");
        for (const std::string& layer : *layers) read_layer(base, layer, layer);
        if (find_group(file_.survey, base + top) != nullptr) read_layer(base, top, "");
        if (const GroupFacts* optimizer = find_group(file_.survey, "optimizer_weights")) read_optimizer(*optimizer);
        return std::move(named_);
    }

private:
    static constexpr const char* top = "top_level_model_weights";

    std::vector<std::string> weight_names(const GroupFacts& group) const {
        const auto names = keras_list(group.attributes, "weight_names");
        if (!names) throw failure("group '{}': has no attribute weight_names", group.path);
        return *names;
    }

    const DatasetFacts& dataset(const std::string& path) const {
        const auto found = datasets_.find(path);
        if (found == datasets_.end()) throw failure("dataset '{}': weight_names lists it, but it is missing", path);
        return *found->second;
    }

    void read_layer(const std::string& base, const std::string& layer, const std::string& shown) {
        const GroupFacts* group = find_group(file_.survey, base + layer);
        if (group == nullptr) throw failure("group '{}': layer_names lists it, but it is missing", base + layer);
        std::map<std::string, int> counts;
        for (const std::string& weight : weight_names(*group)) {
            const DatasetFacts& facts = dataset(base + layer + "/" + weight);
            const KerasPlace place = locate(shown, weight);
            const int number = counts[place.chain]++;
            add(fmt::format("{}{}vars.{}", dotted(place.chain), place.chain.empty() ? "" : ".", number), facts,
                Role::weight);
            if (!place.path.empty()) named_.back().new_path = fmt::format("{}/vars/{}", place.path, number);
            if (shown.empty()) named_.back().new_path = fmt::format("vars/{}", number);
        }
    }

    /// The layer of a weight. Without a configuration, it is derived from the path after the name of the file's layer.
    KerasPlace locate(const std::string& layer, const std::string& weight) const {
        const auto slash = weight.rfind('/');
        if (layer.empty() || slash == weight.npos) return place_of(layers_, layer, "").value_or(KerasPlace{layer, ""});
        const std::string directory = weight.substr(0, slash);
        if (const auto place = place_of(layers_, layer, directory)) return *place;
        const std::string marked = "/" + directory + "/";
        const auto at = marked.find("/" + layer + "/");
        if (at == marked.npos) return {layer + "/" + directory, ""};
        return {directory.substr(at), ""};
    }

    void read_optimizer(const GroupFacts& group) {
        int number = 0;
        for (const std::string& weight : weight_names(group)) {
            add(fmt::format("optimizer.vars.{}", number), dataset(group.path + "/" + weight), Role::optimizer);
            // Optimizers that wrap others have a different form in Keras 3 files.
            if (!weight.starts_with("loss_scale_optimizer/"))
                named_.back().new_path = fmt::format("optimizer/vars/{}", number);
            ++number;
        }
    }

    void add(std::string name, const DatasetFacts& facts, Role role) {
        named_.push_back({.name = std::move(name), .role = role, .rank = 0, .facts = &facts, .file = file_.number});
    }

    const OpenedFile& file_;
    std::map<std::string, const DatasetFacts*> datasets_;
    std::vector<KerasLayer> layers_;
    std::vector<NamedDataset> named_;
};

}  // namespace

bool is_keras_seed(std::string_view name) {
    return name.starts_with("seed_generator") || name.find(".seed_generator") != name.npos;
}

std::optional<std::vector<std::string>> keras_list(const Attributes& attributes, const std::string& name) {
    if (const AttributeValue* whole = find(attributes, name)) return whole->texts;
    std::vector<std::string> all;
    for (int k = 0;; ++k) {
        const AttributeValue* part = find(attributes, fmt::format("{}{}", name, k));
        if (part == nullptr && k == 0) return std::nullopt;
        if (part == nullptr) return std::optional{std::move(all)};
        all.insert(all.end(), part->texts.begin(), part->texts.end());
    }
}

KerasFormat keras_format(const Survey& survey, const std::filesystem::path& name) {
    if (legacy_root(survey) != nullptr) return KerasFormat::legacy;
    const GroupFacts* root = find_group(survey, vars);
    if (root == nullptr) return KerasFormat::no;
    const bool is_tree = find_group(survey, "layers") != nullptr ||
                         find_group(survey, "_layer_checkpoint_dependencies") != nullptr ||
                         text_of(root->attributes, "name") != nullptr || name.string().ends_with(".weights.h5");
    return is_tree ? KerasFormat::weights : KerasFormat::no;
}

std::vector<NamedDataset> keras_weights(std::span<const OpenedFile> files) {
    const Chains chains{files};
    std::vector<NamedDataset> named;
    for (const OpenedFile& file : files) {
        for (const DatasetFacts& facts : file.survey.datasets) {
            if (!facts.kind.empty()) continue;
            NamedDataset dataset{.name = dotted(facts.path), .rank = 0, .facts = &facts, .file = file.number};
            if (const auto variable = variable_of(facts.path)) {
                const std::string chain = chains.name(variable->layer);
                dataset.name = fmt::format("{}{}vars.{}", chain, chain.empty() ? "" : ".", variable->key);
                if (dotted(variable->layer) == "optimizer" || variable->layer.starts_with("optimizer/"))
                    dataset.role = Role::optimizer;
            }
            named.push_back(std::move(dataset));
        }
    }
    // Sorts numbers by value: files list 0, 1, 10, 2.
    std::ranges::stable_sort(named, [](const NamedDataset& a, const NamedDataset& b) {
        const auto first = variable_of(a.facts->path), second = variable_of(b.facts->path);
        if (!first || !second || first->layer != second->layer) return a.facts->path < b.facts->path;
        if (!is_number(first->key) || !is_number(second->key)) return first->key < second->key;
        return std::stoi(first->key) < std::stoi(second->key);
    });
    return named;
}

std::vector<NamedDataset> keras_legacy(const OpenedFile& file) { return Legacy{file}.read(); }

std::vector<std::filesystem::path> keras_shards(const std::filesystem::path& index) {
    constexpr std::uint64_t longest = std::uint64_t{256} << 20;
    return in_context([&] { return index.string(); },
                      [&] {
                          const nlohmann::json json = nlohmann::json::parse(read_file(index, longest), nullptr, false);
                          if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
                              throw failure("is not an index of Keras weights: it has no weight_map");
                          std::set<std::filesystem::path> files;
                          const auto add = [&](const nlohmann::json& name) {
                              if (!name.is_string())
                                  throw failure("weight_map contains something other than file names");
                              const std::filesystem::path file = name.get<std::string>();
                              if (file != file.filename() || file.empty() || file == "..")
                                  throw failure("'{}' leaves the checkpoint's directory", file.string());
                              files.insert(file);
                          };
                          for (const auto& [group, names] : json["weight_map"].items()) {
                              if (!names.is_array()) add(names);
                              if (names.is_array()) std::ranges::for_each(names, add);
                          }
                          return std::vector<std::filesystem::path>{files.begin(), files.end()};
                      });
}

}  // namespace tpx::formats::hdf5
