// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bitset>
#include <string_view>
#include <vector>

namespace tpx::formats::deepspeed {

/// A regular expression of the kind in DeepSpeed's checkpoints: characters, '.', and classes such as \d and [a-z], each
/// optionally followed by *, + or ?, with optional ^ at the start and $ at the end. Matching takes time O(pattern *
/// name).
class Pattern {
public:
    /// Throws Error "pattern 'P': ..." for groups, alternatives and everything else not listed above.
    explicit Pattern(std::string_view text);

    /// Whether a prefix of `name` matches, as in Python's re.match.
    bool match(std::string_view name) const;

private:
    struct Item {
        std::bitset<256> bytes;
        bool optional = false;  ///< may be absent
        bool repeated = false;  ///< may be repeated
    };
    std::vector<Item> items_;
    bool to_end_ = false;
};

}  // namespace tpx::formats::deepspeed
