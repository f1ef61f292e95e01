// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bitset>
#include <string_view>
#include <vector>

namespace tpx::formats::deepspeed {

/// A regular expression as DeepSpeed's checkpoints carry them: characters, '.', classes like \d and [a-z], each
/// perhaps repeated by *, + or ?, with ^ at the start and $ at the end. Matching takes time O(pattern * name).
class Pattern {
public:
    /// Throws Error "pattern 'P': ..." for groups, alternatives and whatever else is not listed above.
    explicit Pattern(std::string_view text);

    /// Whether a prefix of `name` matches, as Python's re.match tells.
    bool match(std::string_view name) const;

private:
    struct Item {
        std::bitset<256> bytes;
        bool optional = false;  ///< may be left out
        bool repeated = false;  ///< may come again
    };
    std::vector<Item> items_;
    bool to_end_ = false;
};

}  // namespace tpx::formats::deepspeed
