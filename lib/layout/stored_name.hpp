// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/reading.hpp"

#include <string>

namespace tpx {

/// The name of the canonical tensor `tensor` of a layer and expert in the dialect of `reading`; its canonical name if
/// the dialect has none.
std::string stored_name(const Reading& reading, const std::string& tensor, NameIndices indices);

}  // namespace tpx
