// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tpx::torch {
struct Value;
}

namespace tpx::formats {

/// The objects (values that are not tensors) of a new checkpoint.
struct NewObjects {
    /// An object whose bytes are known.
    struct Made {
        std::string name;
        std::string bytes;
    };
    std::vector<Object> kept;  ///< objects of the source, stored in its files
    std::vector<Made> made;
    std::shared_ptr<const torch::Value> paths;  ///< path of each name, as in planner data; null: the source's paths
};

/// Adds to `draft` a file whose bytes are all known.
inline void add_file(Draft& draft, const std::filesystem::path& path, std::string bytes) {
    const auto file = std::uint32_t(draft.files.size());
    draft.files.push_back({path, bytes.size()});
    draft.fixed.push_back({file, 0, std::move(bytes)});
}

}  // namespace tpx::formats
