// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <random>
#include <span>
#include <string>

namespace tpx::fuzz {

/// One of `corpus` (not empty), damaged in one to eight ways: bits, bytes, numbers that sit on limits, blocks taken
/// out, doubled, moved or brought from another of `corpus`, the end cut off. The same for the same state of `random`.
std::string mutate(std::span<const std::string> corpus, std::mt19937_64& random);

}  // namespace tpx::fuzz
