// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/source.hpp"

#include <cstdint>
#include <string>
#include <unordered_map>

namespace tpx::formats {

/// The names of a base's tensors. PEFT uses those that modules have in memory, and transformers saves some models under
/// other names.
class SavedNames {
public:
    explicit SavedNames(const Source& base);

    /// The name under which the base stores what is called `in_memory`; `in_memory` itself if it has none.
    std::string of(const std::string& in_memory) const;

private:
    std::string by_rules(const std::string& in_memory) const;

    const Source& base_;
    std::unordered_map<std::string, std::uint32_t> numbers_;  // of the base's tensors
};

}  // namespace tpx::formats
