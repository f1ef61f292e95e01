// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace tpx::fuzz {

/// A reader as a fuzzer sees it: takes bytes that came from anywhere, may throw Error, must do nothing else wrong.
struct Entry {
    std::string_view name;
    void (*run)(std::string_view bytes);
};

/// One entry for each reader.
std::span<const Entry> entries();

}  // namespace tpx::fuzz
