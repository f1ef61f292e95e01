// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/tensor_value.hpp"

#include "formats/encodings/torch/archive_writer.hpp"
#include "lib/core/error.hpp"

namespace tpx::torch {

Value make_tensor(Document& document, DType dtype, const Shape& shape, std::string_view key) {
    if (info(dtype).torch.empty() || itemsize(dtype) == 0)
        throw failure("torch cannot store tensors of dtype {}", name(dtype));
    return tensor_value(document, dtype, shape, row_major(shape), key, static_cast<std::uint64_t>(volume(shape)));
}

Value make_ordered_dict(Document& document) {
    return document.object(document.global("collections", "OrderedDict"), document.tuple({}));
}

}  // namespace tpx::torch
