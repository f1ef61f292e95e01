// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/encodings/torch/value.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace tpx::torch {

/// A parsed pickle and its length in bytes; other data may follow it.
struct Pickle {
    Document document;
    std::size_t length = 0;
};

/// Reads the pickle of protocol 0 to 5 that `data` starts with; nothing is looked up or executed, and nothing in the
/// result points into `data`. Throws Error "byte 12: ..." when it is malformed or names what only an attack would name
/// (os, subprocess, eval, ...), nests values more than 1000 deep, or needs more memory than `most_memory` bytes or than
/// 16 times the length of `data` plus 64 MiB.
Pickle read_pickle(std::string_view data, std::uint64_t most_memory = std::numeric_limits<std::uint64_t>::max());

}  // namespace tpx::torch
