// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/output/output.hpp"
#include "formats/source.hpp"

#include <string>

namespace tpx::cli {

/// Prints the file, offset and rank of every part of the tensor whose stored or canonical name is `wanted`.
void print_where(formats::Source& source, const std::string& wanted, Output& out);

}  // namespace tpx::cli
