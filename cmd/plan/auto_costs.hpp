// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/plan/auto_layouts.hpp"
#include "cmd/plan/planning.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tpx::cli {

/// The costs in a plan by which layouts are compared.
ReachableLayout::Costs costs_of(const PlanReport& report);

/// "4 with tp, 2 with pp": excluded layouts by technique.
std::string excluded_text(std::span<const std::pair<std::string_view, std::size_t>> excluded);

/// Bytes that hosts receive from other hosts or from storage.
std::uint64_t between_hosts(const BytesBySource& bytes);

/// Whether `a` is at least as good as `b` in both bytes and step time and better in at least one.
bool beats(const ReachableLayout& a, const ReachableLayout& b);

}  // namespace tpx::cli
