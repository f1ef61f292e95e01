// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <string>
#include <vector>

namespace tpx::formats {

/// Throws Error if tensors of `source` without a rule must be resharded, or if optimizer state is in buckets that could
/// not be unpacked and the layout of `target` differs in more than dp, cp and zero. Keeps tensors of one element
/// unchanged and adds a note about them.
void check_unknown(const Source& source, const Target& target, std::vector<std::string>& notes);

/// Adds a note about tensors that no rule matches, with the rule to write. Ignores optimizer state in buckets, which
/// rules cannot describe.
void note_unknown(Source& source);

}  // namespace tpx::formats
