// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tpx::torch {

class Archive;

/// Reads the stream that torch.save wrote before it wrote zip archives: pickles (magic number, protocol, machine,
/// object, storage keys), then each storage's element count and bytes, in the order of the keys.
class LegacyReader {
public:
    /// Fills `archive` from its range. Throws Error when that holds no such stream, or a malformed one.
    static void read(Archive& archive);
};

}  // namespace tpx::torch
