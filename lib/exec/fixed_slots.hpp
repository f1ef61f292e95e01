// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tpx {

/// Which CRC slots of a draft are in which run of its fixed bytes. If nothing overlaps, a run with slots is written
/// once, after the payloads, instead of three times: before them, and once for each of the two slots of a payload in an
/// archive.
class FixedSlots {
public:
    explicit FixedSlots(const Draft& draft);

    /// Whether the draft consists of archives that follow each other: each piece has slots, each slot is in a run, and
    /// no payload or copy overlaps a run. If not, no run has slots.
    bool are_apart() const { return !ends_.empty(); }

    /// Whether there are slots in run `k`: begin(k) to end(k), by the draft's numbers.
    bool has(std::size_t k) const { return are_apart() && begin(k) < end(k); }
    std::size_t begin(std::size_t k) const { return k == 0 ? 0 : ends_[k - 1]; }
    std::size_t end(std::size_t k) const { return ends_[k]; }

private:
    std::vector<std::uint32_t> ends_;  // by run; empty if not apart
};

}  // namespace tpx
