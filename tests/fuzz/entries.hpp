// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace tpx::fuzz {

/// A reader for fuzzing: takes arbitrary bytes, and may throw Error but must not fail in any other way.
struct Entry {
    std::string_view name;
    void (*run)(std::string_view bytes);
};

/// One entry for each reader.
std::span<const Entry> entries();

}  // namespace tpx::fuzz
