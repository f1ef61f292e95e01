// SPDX-License-Identifier: Apache-2.0
#include "formats/state/extra_state.hpp"

#include "lib/core/box.hpp"

#include <algorithm>

namespace tpx::formats {

bool is_empty_extra_state(torch::Value value, const torch::Archive& archive) {
    using torch::Kind;
    constexpr std::size_t nothing_pickled = 1500;  // bytes; torch.save(None) writes about a thousand
    if (const auto tensor = archive.tensor(value)) return volume(tensor->shape) == 0;
    if (value.is(Kind::object)) value = value.as_object().state;  // io.BytesIO, whose state begins with its bytes
    if (value.is(Kind::tuple) && !value.items().empty()) value = value.items()[0];
    if (value.is(Kind::list))
        return std::ranges::all_of(value.items(),
                                   [&](const torch::Value& item) { return is_empty_extra_state(item, archive); });
    if (value.is(Kind::bytes)) return value.as_bytes().size() <= nothing_pickled;
    return value.is_none();
}

}  // namespace tpx::formats
