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

/// Byte entries of a new checkpoint.
struct NewObjects {
    /// An entry whose bytes are known.
    struct Made {
        std::string name;
        std::string bytes;
    };
    std::vector<Object> kept;  ///< the source's, in its own files
    std::vector<Made> made;
    std::shared_ptr<const torch::Value> paths;  ///< of names, as planner data has them; null: those of the source
};

/// Adds a file whose bytes are all known to `draft`.
inline void add_file(Draft& draft, const std::filesystem::path& path, std::string bytes) {
    const auto file = std::uint32_t(draft.files.size());
    draft.files.push_back({path, bytes.size()});
    draft.fixed.push_back({file, 0, std::move(bytes)});
}

}  // namespace tpx::formats
