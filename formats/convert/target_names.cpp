// SPDX-License-Identifier: Apache-2.0
#include "formats/convert/target_names.hpp"

#include "formats/driver.hpp"
#include "lib/core/error.hpp"

#include <string_view>

namespace tpx::formats {
void check_target_names(Format format, std::span<const Tensor> tensors) {
    for (const Tensor& tensor : tensors) {
        const std::string_view cause = format->reject_name(tensor.name);
        if (!cause.empty())
            throw failure("tensor '{}': {}, so {} cannot store it; rename it, or choose another --format", tensor.name,
                          cause, name(format));
    }
}

}  // namespace tpx::formats
