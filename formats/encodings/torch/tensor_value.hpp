// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"
#include "lib/core/box.hpp"
#include "lib/core/dtype.hpp"

#include <string_view>

namespace tpx::torch {

/// A tensor of `shape` in C order that fills storage `key` of a new archive, as torch.save would pickle it. Throws
/// Error for dtypes that torch lacks.
Value make_tensor(Document& document, DType dtype, const Shape& shape, std::string_view key);

/// An empty collections.OrderedDict, to which entries can be added.
Value make_ordered_dict(Document& document);

}  // namespace tpx::torch
