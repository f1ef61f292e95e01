// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tpx::formats {

/// Which of a checkpoint's torch.save archives, and raw payloads with a known CRC-32, hold other bytes than their
/// CRC-32s tell.
struct ArchiveCheck {
    std::uint64_t archives = 0;        ///< and payloads that were checked
    std::vector<std::string> damaged;  ///< a line each: "FILE: tensor 'NAME': cause"
};

/// Reads every `shares`-th archive of `checkpoint`, from number `share` on, and compares its CRC-32s, until `stops`
/// says that it must end. To be called before the payloads are located. Formats without archives have nothing to check.
ArchiveCheck check_archives(const Checkpoint& checkpoint, int share, int shares, const std::function<bool()>& stops);

}  // namespace tpx::formats
