// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/checkpoint.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tpx::formats {

/// Which torch.save archives of a checkpoint, and which raw payloads with a known CRC-32, do not match their CRC-32s.
struct ArchiveCheck {
    std::uint64_t archives = 0;        ///< archives and payloads that were checked
    std::vector<std::string> damaged;  ///< a line each: "FILE: tensor 'NAME': cause"
};

/// Checks the CRC-32s of part `share` of `shares` of the archives of `checkpoint`. Call it before locate(). Returns
/// early, with an incomplete result, once `is_cancelled` returns true. Formats without archives have nothing to
/// check.
ArchiveCheck check_archives(const Checkpoint& checkpoint, int share, int shares,
                            const std::function<bool()>& is_cancelled);

}  // namespace tpx::formats
