// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/core/catalogue.hpp"

#include <cstdint>
#include <string_view>

namespace tpx {

/// A 64-bit FNV-1a hash of a sequence of numbers and texts, the same on every machine. Two sequences that differ in a
/// single byte of a number or text never have the same hash. It does not resist deliberate collisions.
class Fingerprint {
public:
    void add(std::uint64_t number) {
        for (int i = 0; i < 8; ++i) add_byte(static_cast<unsigned char>(number >> (8 * i)));
    }
    void add(std::string_view text) {
        add(text.size());
        for (char byte : text) add_byte(static_cast<unsigned char>(byte));
    }
    void add(const Box& box) {
        for (Interval side : box) {
            add(static_cast<std::uint64_t>(side.begin));
            add(static_cast<std::uint64_t>(side.end));
        }
    }

    std::uint64_t value() const { return state_; }

private:
    void add_byte(unsigned char byte) { state_ = (state_ ^ byte) * 0x100000001b3; }

    std::uint64_t state_ = 0xcbf29ce484222325;
};

/// Identifies a checkpoint without reading its payloads: a fingerprint of the names, dtypes and shapes of its tensors,
/// of the boxes of its pieces and the files they are in, and of the names and sizes of the files. Offsets are omitted
/// because some formats determine them late.
std::uint64_t catalogue_digest(const Catalogue& catalogue);

}  // namespace tpx
