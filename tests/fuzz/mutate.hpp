// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <random>
#include <span>
#include <string>

namespace tpx::fuzz {

/// One of `corpus` (not empty), damaged in one to eight ways: changed bits or bytes, numbers at limits, blocks that are
/// removed, doubled, moved or copied from another of `corpus`, or a truncated end. Deterministic for the same state of
/// `random`.
std::string mutate(std::span<const std::string> corpus, std::mt19937_64& random);

}  // namespace tpx::fuzz
