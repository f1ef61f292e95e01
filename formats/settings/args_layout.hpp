// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/layout/config.hpp"
#include "lib/layout/layout.hpp"

#include <string_view>

namespace tpx::formats::megatron {

/// More ranks than any job has; larger numbers are mistakes.
inline constexpr int max_job_ranks = 1 << 20;

/// The degree of parallelism that Megatron's args have under `key`, or `fallback`. Throws Error if it is out of range.
int parallel_degree(const Config& args, std::string_view key, int fallback);

/// The layout that Megatron's args describe; degrees that they lack are those of `fallback`. Throws Error if they
/// contradict each other.
Layout layout_of_args(const Config& args, const Layout& fallback);

}  // namespace tpx::formats::megatron
