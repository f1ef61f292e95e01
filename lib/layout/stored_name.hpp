// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/reading.hpp"

#include <string>

namespace tpx {

/// What the dialect of `reading` calls the canonical tensor `tensor` of a layer and expert; its canonical name if the
/// dialect has none.
std::string stored_name(const Reading& reading, const std::string& tensor, NameIndices indices);

}  // namespace tpx
