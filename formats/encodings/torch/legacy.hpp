// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace tpx::torch {

class Archive;

/// The integer at the start of a legacy stream, as two's complement, and the number of the stream's protocol.
inline constexpr std::string_view stream_magic{"\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10};
inline constexpr std::int64_t stream_protocol = 1001;

/// Reads the stream that torch.save wrote before it wrote zip archives: pickles (magic number, protocol, machine,
/// object, storage keys), then each storage's element count and bytes, in the order of the keys.
class LegacyReader {
public:
    /// Fills `archive` from its range. Throws Error if the range is not such a stream, or a malformed one.
    static void read(Archive& archive);
};

}  // namespace tpx::torch
