// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/output/output.hpp"
#include "formats/state/read_state.hpp"

#include <string>
#include <vector>

namespace tpx::cli {

/// Prints non-tensor state as an indented tree that abbreviates long sequences and strings; with --json, prints
/// everything.
void print_state(const formats::Checkpoint& checkpoint, const std::vector<formats::StateItem>& items, Output& out);

/// A tree as lines of text, of which the first begins with `key`; control characters are escaped.
std::string state_text(const std::string& key, const formats::StateNode& node, int indent);

}  // namespace tpx::cli
