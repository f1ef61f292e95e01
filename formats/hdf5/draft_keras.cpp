// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/hdf5/skeleton.hpp"
#include "formats/hdf5/driver.hpp"
#include "formats/hdf5/hdf5.hpp"
#include "formats/hdf5/keras_tree.hpp"
#include "lib/core/error.hpp"

namespace tpx::formats {
namespace hdf5 {
namespace {

bool is_keras(Format format) { return format == &keras_driver || format == &keras_legacy_driver; }

void check(Format format, const Content& content) {
    const Checkpoint& source = *content.source;
    if (!is_keras(source.format))
        throw Error{
            Exit::usage,
            "{} files can only be written from Keras files, because {} checkpoints do not record the layers of a model",
            name(format), name(source.format)};
    if (content.ranks > 1)
        throw Error{Exit::usage, "layout: {} files contain whole tensors; use a layout with one rank", name(format)};
}

void add_groups(Skeleton& skeleton, const Tree& tree) {
    for (const GroupFacts& group : tree.groups) {
        skeleton.group(group.path);
        for (const AttributeValue& attribute : group.attributes) skeleton.attribute(group.path, attribute);
    }
}

void add_dataset(Skeleton& skeleton, const Tree& tree, const Tensor& tensor) {
    const auto found = tree.datasets.find(tensor.name);
    if (found == tree.datasets.end()) throw failure("has no place in the model's layers or its optimizer");
    const Tree::Origin& origin = found->second;
    skeleton.dataset(origin.path, tensor.dtype, tensor.shape, true);
    for (const AttributeValue& attribute : origin.attributes) {
        if (attribute.name != "dtype") skeleton.attribute(origin.path, attribute);
    }
}

}  // namespace
}  // namespace hdf5

Draft draft_keras(Format format, const Content& content) {
    hdf5::check(format, content);
    const hdf5::Tree tree = hdf5::keras_tree(format, content);
    Draft draft{.tensors = content.tensors, .pieces = content.pieces};
    hdf5::Skeleton skeleton;
    hdf5::add_groups(skeleton, tree);
    for (const Piece& piece : content.pieces) {
        const Tensor& tensor = content.tensors[piece.tensor];
        in_context([&] { return fmt::format("tensor '{}'", tensor.name); },
                   [&] {
                       if (piece.box != whole(tensor.shape)) throw failure("is split, which Keras does not support");
                       hdf5::add_dataset(skeleton, tree, tensor);
                   });
    }
    hdf5::Skeleton::Frame frame = skeleton.close(0);
    draft.files.push_back({format == &keras_driver ? "model.weights.h5" : "model.h5", frame.size});
    draft.fixed = std::move(frame.fixed);
    for (std::size_t k = 0; k < draft.pieces.size(); ++k) {
        draft.pieces[k].file = 0;
        draft.pieces[k].offset = frame.offsets[k];
        draft.pieces[k].strides = row_major(draft.tensors[draft.pieces[k].tensor].shape);
    }
    return draft;
}

}  // namespace tpx::formats
