// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/keras_tree.hpp"

#include "formats/encodings/hdf5/skeleton.hpp"
#include "formats/hdf5/driver.hpp"
#include "formats/hdf5/keras.hpp"
#include "formats/hdf5/keras_model.hpp"
#include "formats/hdf5/keras_variables.hpp"
#include "formats/hdf5/opened_file.hpp"
#include "formats/settings/keras_config.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <set>

namespace tpx::formats::hdf5 {
namespace {

bool is_optimizer(std::string_view path) {
    return path == "optimizer" || path.starts_with("optimizer/") || path == "optimizer_weights" ||
           path.starts_with("optimizer_weights/");
}

bool is_state(const Tensor& tensor) { return tensor.name.starts_with("optimizer."); }

std::vector<const Tensor*> states_of(const Content& content) {
    std::vector<const Tensor*> states;
    for (const Tensor& tensor : content.tensors) {
        if (is_state(tensor)) states.push_back(&tensor);
    }
    return states;
}

void erase_optimizer(Tree& tree) {
    std::erase_if(tree.groups, [](const GroupFacts& group) { return is_optimizer(group.path); });
    std::erase_if(tree.datasets, [](const auto& entry) { return is_optimizer(entry.second.path); });
}

AttributeValue list_of_texts(const char* name, std::vector<std::string> texts) {
    return {.name = name, .kind = AttributeValue::Kind::texts, .is_list = true, .texts = std::move(texts)};
}

// --- Keras 3 from the legacy format

class NewTree {
public:
    NewTree(const Tree& old, const Content& content) : old_{old} {
        for (const char* group : {"vars", "layers"}) tree_.groups.push_back({group, {}});
        if (const std::string* config = text_of(old.groups.at(0).attributes, "model_config")) {
            for (const KerasLayer& layer : keras_layers(*config)) name_group(layer.path + "/vars", layer.names.back());
        }
        for (const Tensor& tensor : content.tensors)
            in_context([&] { return fmt::format("tensor '{}'", tensor.name); }, [&] { add(tensor); });
    }

    Tree take() { return std::move(tree_); }

private:
    void add(const Tensor& tensor) {
        const std::string& path = old_.datasets.at(tensor.name).new_path;
        if (path.empty()) refuse(tensor);
        tree_.datasets[tensor.name] = {path, {}, {}};
        const std::size_t end = tensor.name.rfind(".vars.");
        if (end == tensor.name.npos || is_optimizer(path)) return;
        const std::string chain = tensor.name.substr(0, end);
        name_group(path.substr(0, path.rfind('/')), chain.substr(chain.rfind('.') + 1));
    }

    [[noreturn]] void refuse(const Tensor& tensor) const {
        if (is_optimizer(old_.datasets.at(tensor.name).path))
            throw Error{Exit::usage,
                        "an optimizer that wraps another one has a different form in Keras 3 files; pass --drop "
                        "optimizer to omit it"};
        throw Error{Exit::usage,
                    "the position of its layer in Keras 3 files is unknown: the file has no model_config, or the layer "
                    "is part of one that is not a model, recurrent layer, wrapper or MultiHeadAttention; pass --config "
                    "MODEL.keras, a Keras 3 file of the same model"};
    }

    /// Records the layer's name in its group.
    void name_group(const std::string& group, const std::string& name) {
        if (named_.insert(group).second) tree_.groups.push_back({group, {text_attribute("name", name)}});
    }

    const Tree& old_;
    Tree tree_;
    std::set<std::string> named_;
};

// --- the legacy format from Keras 3

class OldTree {
public:
    OldTree(const Tree& source, const Content& content) : source_{source} {
        if (source.config.empty())
            throw Error{Exit::usage,
                        "keras-legacy files store the model's configuration, which is missing; pass --config FILE: a "
                        ".keras archive of the model, its config.json, or the output of model.to_json()"};
        for (const auto& [tensor, origin] : source.datasets) tensors_[origin.path] = tensor;
        layers_ = keras_variables(source, source.config);
        add_root();
        add_layers();
        add_optimizer(content);
    }

    Tree take() { return std::move(tree_); }

private:
    void add_root() {
        // Without a version, Keras would assume an old file with transposed kernels.
        const std::string version = source_.keras_version.empty() ? "3.0.0" : source_.keras_version;
        Attributes root{text_attribute("keras_version", version),
                        text_attribute("model_config", legacy_model_config(source_.config))};
        const std::string training = legacy_training_config(source_.config);
        if (!training.empty()) root.push_back(text_attribute("training_config", training));
        tree_.groups.push_back({"", std::move(root)});
        std::vector<std::string> names;
        for (const KerasVariables& layer : layers_) names.push_back(layer.layer);
        tree_.groups.push_back(
            {"model_weights",
             {list_of_texts("layer_names", std::move(names)), text_attribute("keras_version", version)}});
        tree_.groups.push_back({"model_weights/top_level_model_weights", {list_of_texts("weight_names", {})}});
    }

    void add_layers() {
        for (const KerasVariables& layer : layers_) {
            const std::string group = "model_weights/" + layer.layer;
            std::vector<std::string> names;
            std::map<std::string, int> counts;
            for (const KerasVariable& variable : layer.variables) {
                const std::string above = variable.name.substr(0, variable.name.rfind('/'));
                const std::string& tensor = tensors_.at(variable.path);
                // Legacy files identify layers only by name.
                if (tensor != fmt::format("{}.vars.{}", dotted(above), counts[above]++))
                    throw failure("layer '{}': another layer has the same name, so keras-legacy cannot store it",
                                  above);
                names.push_back(variable.name);
                tree_.datasets[tensor] = {group + "/" + variable.name, {}, {}};
            }
            tree_.groups.push_back({group, {list_of_texts("weight_names", std::move(names))}});
        }
    }

    void add_optimizer(const Content& content) {
        const std::vector<const Tensor*> states = states_of(content);
        if (states.empty()) return;
        std::string optimizer = "optimizer";
        for (const GroupFacts& group : source_.groups) {
            const std::string* name = text_of(group.attributes, "name");
            if (group.path == "optimizer/vars" && name != nullptr) optimizer = *name;
        }
        std::vector<std::string> names = optimizer_names(source_.config, states.size(), layers_);
        for (std::string& name : names) name.insert(0, optimizer + "/");
        for (std::size_t k = 0; k < names.size(); ++k)
            tree_.datasets[fmt::format("optimizer.vars.{}", k)] = {"optimizer_weights/" + names[k], {}, {}};
        tree_.groups.push_back({"optimizer_weights", {list_of_texts("weight_names", std::move(names))}});
    }

    const Tree& source_;
    Tree tree_;
    std::map<std::string, std::string> tensors_;  // by dataset
    std::vector<KerasVariables> layers_;
};

// --- from another checkpoint of the same model

/// Replaces the optimizer state of `tree`, which is from a checkpoint that may have none, with numbered variables for
/// `states`.
void add_states(Format format, const std::vector<const Tensor*>& states, Tree& tree) {
    erase_optimizer(tree);
    if (states.empty()) return;
    std::vector<std::string> names;
    for (std::size_t k = 0; k < states.size(); ++k) {
        const std::string name = fmt::format("variable_{}", k);
        names.push_back("optimizer/" + name);
        const std::string path = format == &keras_driver ? fmt::format("optimizer/vars/{}", k)
                                                         : fmt::format("optimizer_weights/optimizer/{}", name);
        tree.datasets[fmt::format("optimizer.vars.{}", k)] = {path, {}, {}};
    }
    if (format == &keras_legacy_driver)
        tree.groups.push_back({"optimizer_weights", {list_of_texts("weight_names", std::move(names))}});
}

Tree tree_like(const Checkpoint& like, Format format, const Content& content) {
    Tree tree = *like.tree;
    const std::string file = like.catalogue.path(0).string();
    std::map<std::string, const Tensor*> known;
    for (const Tensor& tensor : like.catalogue.tensors) known[tensor.name] = &tensor;
    const std::vector<const Tensor*> states = states_of(content);
    if (!std::ranges::all_of(states, [&](const Tensor* t) { return known.contains(t->name); }) ||
        std::ranges::count_if(like.catalogue.tensors, is_state) != std::ssize(states))
        add_states(format, states, tree);
    std::set<std::string_view> mine;
    for (const Tensor& tensor : content.tensors) {
        if (is_state(tensor)) continue;
        mine.insert(tensor.name);
        const auto found = known.find(tensor.name);
        if (found == known.end())
            throw failure("tensor '{}': is missing from {}, which is another model", tensor.name, file);
        if (found->second->shape != tensor.shape)
            throw failure("tensor '{}': is {}, but {} in {}, which is another model", tensor.name,
                          to_string(tensor.shape), to_string(found->second->shape), file);
    }
    for (const auto& [name, tensor] : known) {
        if (!is_state(*tensor) && !is_keras_seed(name) && !mine.contains(name))
            throw failure("tensor '{}': is only in {}, which is another model", name, file);
    }
    return tree;
}

}  // namespace

Tree keras_tree(Format format, const Content& content) {
    const Checkpoint& source = *content.source;
    const Tree& own = *source.tree;
    if (own.like && own.like->format == format && source.format != format) return tree_like(*own.like, format, content);
    if (format == &keras_driver && source.format == &keras_legacy_driver) return NewTree{own, content}.take();
    if (format == &keras_legacy_driver && source.format == &keras_driver) return OldTree{own, content}.take();
    Tree tree = own;
    if (states_of(content).empty()) erase_optimizer(tree);
    return tree;
}

}  // namespace tpx::formats::hdf5
