// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/hdf5.hpp"
#include "formats/hdf5/keras_model.hpp"
#include "formats/hdf5/skeleton.hpp"
#include "formats/hdf5/tree.hpp"
#include "lib/core/error.hpp"

#include <algorithm>
#include <optional>
#include <set>

namespace tpx::formats {
namespace hdf5 {
namespace {

bool is_optimizer(std::string_view path) {
    return path == "optimizer" || path.starts_with("optimizer/") || path == "optimizer_weights" ||
           path.starts_with("optimizer_weights/");
}

/// Whether weights of version 3 are made of a file of the old kind.
bool modernises(Format format, const Checkpoint& source) {
    return format == Format::keras && source.format == Format::keras_legacy;
}

const Tree& tree_of(Format format, const Content& content) {
    const Checkpoint& source = *content.source;
    if (source.format != format && !modernises(format, source))
        throw Error{Exit::usage,
                    "{} files are made of {} files only: {} do not tell {}",
                    name(format),
                    name(format),
                    name(source.format),
                    format == Format::keras ? "where in the model each layer stands"
                                            : "the names of variables and the model's configuration"};
    if (content.ranks > 1)
        throw Error{Exit::usage, "layout: {} files hold whole tensors; give a layout of one rank", name(format)};
    return *source.tree;
}

void add_groups(Skeleton& skeleton, const Tree& tree, bool with_optimizer) {
    for (const GroupFacts& group : tree.groups) {
        if (!with_optimizer && is_optimizer(group.path)) continue;
        skeleton.group(group.path);
        for (const AttributeValue& attribute : group.attributes) skeleton.attribute(group.path, attribute);
    }
}

void add_dataset(Skeleton& skeleton, const Tree::Origin& origin, const Tensor& tensor) {
    skeleton.dataset(origin.path, tensor.dtype, tensor.shape, true);
    for (const AttributeValue& attribute : origin.attributes) {
        if (attribute.name != "dtype") skeleton.attribute(origin.path, attribute);
    }
}

/// Puts the tensors of a file of the old kind where version 3 has them. The group of each layer tells the layer's name.
class Modernised {
public:
    Modernised(Skeleton& skeleton, const Tree& tree) : skeleton_{skeleton}, tree_{tree} {
        for (const char* group : {"vars", "layers"}) skeleton_.group(group);
        const std::string* config = text_of(tree.groups.at(0).attributes, "model_config");
        if (config == nullptr) return;
        for (const KerasLayer& layer : keras_layers(*config)) name_group(layer.path + "/vars", layer.names.back());
    }

    void add(const Tensor& tensor) {
        const std::string& path = tree_.datasets.at(tensor.name).new_path;
        if (path.empty()) refuse(tensor);
        skeleton_.dataset(path, tensor.dtype, tensor.shape, true);
        const std::size_t end = tensor.name.rfind(".vars.");
        if (end == tensor.name.npos || is_optimizer(path)) return;
        const std::string chain = tensor.name.substr(0, end);
        name_group(path.substr(0, path.rfind('/')), chain.substr(chain.rfind('.') + 1));
    }

private:
    [[noreturn]] void refuse(const Tensor& tensor) const {
        if (is_optimizer(tree_.datasets.at(tensor.name).path))
            throw Error{Exit::usage,
                        "an optimizer around another one has another form in files of Keras 3; --drop optimizer leaves "
                        "it out"};
        throw Error{Exit::usage,
                    "the file does not tell where in files of Keras 3 its layer stands: it has no model_config, or the "
                    "layer is part of one that is no model, recurrent layer, wrapper or MultiHeadAttention"};
    }

    void name_group(const std::string& group, const std::string& name) {
        if (!named_.insert(group).second) return;
        skeleton_.group(group);
        skeleton_.attribute(group, text_attribute("name", name));
    }

    Skeleton& skeleton_;
    const Tree& tree_;
    std::set<std::string> named_;
};

}  // namespace
}  // namespace hdf5

Draft draft_keras(Format format, const Content& content) {
    const hdf5::Tree& tree = hdf5::tree_of(format, content);
    Draft draft{.tensors = content.tensors, .pieces = content.pieces};
    hdf5::Skeleton skeleton;
    const auto has_optimizer = [](const Tensor& tensor) { return tensor.name.starts_with("optimizer."); };
    std::optional<hdf5::Modernised> modernised;
    if (hdf5::modernises(format, *content.source))
        modernised.emplace(skeleton, tree);
    else
        hdf5::add_groups(skeleton, tree, std::ranges::any_of(content.tensors, has_optimizer));
    for (const Piece& piece : content.pieces) {
        const Tensor& tensor = content.tensors[piece.tensor];
        in_context([&] { return fmt::format("tensor '{}'", tensor.name); },
                   [&] {
                       if (piece.box != whole(tensor.shape)) throw failure("is cut, which Keras does not know");
                       if (modernised)
                           modernised->add(tensor);
                       else
                           hdf5::add_dataset(skeleton, tree.datasets.at(tensor.name), tensor);
                   });
    }
    hdf5::Skeleton::Frame frame = skeleton.close(0);
    draft.files.push_back({format == Format::keras ? "model.weights.h5" : "model.h5", frame.size});
    draft.fixed = std::move(frame.fixed);
    for (std::size_t k = 0; k < draft.pieces.size(); ++k) {
        draft.pieces[k].file = 0;
        draft.pieces[k].offset = frame.offsets[k];
        draft.pieces[k].strides = row_major(draft.tensors[draft.pieces[k].tensor].shape);
    }
    return draft;
}

}  // namespace tpx::formats
