// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"
#include "lib/layout/reading.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace tpx {

/// One canonical tensor inside a stored one: element x of the canonical tensor is the stored element whose coordinate
/// on each axis a is offset[a] + sum over k with axis[k] == a of x[k] * step[k].
struct Part {
    std::string name;  ///< "layers.3.q", "exp_avg.embed"; a stored tensor that is not taken apart keeps its own name
    Shape shape;       ///< of the canonical tensor
    Tuple<int> axis;
    Tuple<Index> step;
    Tuple<Index> offset;
    Index repeat = 0;  ///< if positive, the same canonical tensor as an earlier part of the stored one
    Shape view;        ///< if not empty: `axis` refers to the stored bytes in this shape, not in the tensor's own
};

/// A stored tensor's axes with the sizes of its factors filled in.
struct FactoredAxis {
    struct Factor {
        char letter = 0;
        Index step = 0;
        Index size = 0;
    };
    std::vector<Factor> places;                    ///< factors that all parts share, slowest first
    bool has_parts = false;                        ///< this axis contains '+'
    std::size_t before_parts = 0;                  ///< how many of `places` are slower than the '+'
    std::vector<Index> part_begin;                 ///< where each part begins at the '+', in elements of this axis
    std::vector<std::vector<Factor>> part_places;  ///< the factors of each part at the '+'
    Index size = 0;                                ///< of the axis, without padding
    bool padded = false;
};

/// The axes of a stored tensor in the order of its bytes, with a leading axis of layers if the layer is not in its
/// name.
std::vector<Axis> stored_axes(const Family& family, const Meaning& meaning);

/// The axes that the file declares: those of stored_axes() unless the expression contains "as".
std::vector<Axis> shape_axes(const Family& family, const Meaning& meaning);

/// Whether the size of one of the factors of a stored tensor varies, see Family::varies().
bool has_varying_size(const Family& family, const Meaning& meaning);

/// The sizes of the factors of one stored tensor: those that vary follow from formulas, or else from its shape. Throws
/// Error "tensor 'NAME': ..." if they do not.
Dims sizes_in(const Reading& reading, const Tensor& tensor, const Meaning& meaning);

/// Whether the shape of a tensor agrees with the rule of `meaning` and the sizes of `reading`, which must be complete.
bool fits_shape(const Reading& reading, const Tensor& tensor, const Meaning& meaning);

/// The shape, without padding, that a tensor must have by the rule of `meaning` and the sizes of `reading`, which must
/// be complete.
Shape expected_shape(const Reading& reading, const Tensor& tensor, const Meaning& meaning);

/// The axes of a stored tensor with the sizes of their factors; `layers` is the size of an axis of layers. Throws Error
/// if a factor has no size.
std::vector<FactoredAxis> factored_axes(const Family& family, const Meaning& meaning, const Dims& dims, Index layers);

/// The same for the axes that the file declares: those of shape_axes().
std::vector<FactoredAxis> factored_shape(const Family& family, const Meaning& meaning, const Dims& dims, Index layers);

/// The parts of a stored tensor. A tensor that is not a parameter, or whose reading is not complete, is its own only
/// part. Throws Error "tensor 'NAME': ..." if its shape contradicts the rule and the sizes.
std::vector<Part> parts_of(const Reading& reading, const Tensor& tensor, const Meaning& meaning);

/// The name of a canonical tensor in one role, with its layer and expert if it has them: "exp_avg.layers.3.q".
std::string part_name(Role role, const CanonicalTensor& tensor, const NameIndices& at);

/// The whole tensor as its own only part.
Part own_part(const Tensor& tensor);

/// The coordinates in the stored tensor of element `x` of the part.
Tuple<Index> stored_index(const Part& part, const Tuple<Index>& x);

/// Appends to `out` the pieces of `part` in `stored`, a piece of the stored tensor with `itemsize` bytes per element.
/// The new pieces belong to `tensor`. If a boundary of `stored` is inside a factor, there are several (at most 2k-1 per
/// axis of k factors). Throws Error if the part has a view and `stored` is not the whole tensor.
void cut_out(const Part& part, const Piece& stored, std::uint32_t tensor, int itemsize, std::vector<Piece>& out);

}  // namespace tpx
