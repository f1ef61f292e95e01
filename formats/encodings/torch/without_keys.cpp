// SPDX-License-Identifier: Apache-2.0
#include "formats/encodings/torch/without_keys.hpp"

#include <algorithm>
#include <vector>

namespace tpx::torch {

Value without_keys(Document& document, Value value, std::initializer_list<std::string_view> keys) {
    std::vector<Entry> kept;
    for (const Entry& entry : value.entries())
        if (!entry.key.is(Kind::string) || std::ranges::find(keys, entry.key.as_string()) == keys.end())
            kept.push_back(entry);
    return document.dict(kept);
}

}  // namespace tpx::torch
