// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/hdf5.hpp"
#include "formats/hdf5/skeleton.hpp"
#include "formats/hdf5/tree.hpp"
#include "lib/core/error.hpp"

#include <algorithm>

namespace tpx::formats {
namespace hdf5 {
namespace {

bool is_optimizer(std::string_view path) {
    return path == "optimizer" || path.starts_with("optimizer/") || path == "optimizer_weights" ||
           path.starts_with("optimizer_weights/");
}

const Tree& tree_of(Format format, const Content& content) {
    const Checkpoint& source = *content.source;
    if (source.format != format)
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

}  // namespace
}  // namespace hdf5

Draft draft_keras(Format format, const Content& content) {
    const hdf5::Tree& tree = hdf5::tree_of(format, content);
    Draft draft{.tensors = content.tensors, .pieces = content.pieces};
    hdf5::Skeleton skeleton;
    const auto has_optimizer = [](const Tensor& tensor) { return tensor.name.starts_with("optimizer."); };
    hdf5::add_groups(skeleton, tree, std::ranges::any_of(content.tensors, has_optimizer));
    for (const Piece& piece : content.pieces) {
        const Tensor& tensor = content.tensors[piece.tensor];
        in_context([&] { return fmt::format("tensor '{}'", tensor.name); },
                   [&] {
                       if (piece.box != whole(tensor.shape)) throw failure("is cut, which Keras does not know");
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
