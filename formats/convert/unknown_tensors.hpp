// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <string>
#include <vector>

namespace tpx::formats {

/// Throws Error when tensors of `source` without a rule are to be cut anew, or optimizer state is in buckets that could
/// not be taken apart and do not fit the layout of `target`, in which only dp and cp may be others. Tensors of one
/// element are not cut but kept as they are, which a line in `notes` tells.
void check_unknown(const Source& source, const Target& target, std::vector<std::string>& notes);

/// Adds a note of tensors that no rule matches, with the rule to write. Optimizer state in buckets needs other things.
void note_unknown(Source& source);

}  // namespace tpx::formats
