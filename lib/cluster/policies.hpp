// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/cluster/policy.hpp"

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tpx {

/// A policy that can be asked for by name.
struct PolicyInfo {
    std::string_view name;
    std::string_view summary;
    std::unique_ptr<Policy> (*make)();
};

/// All policies, in the order of the manual.
std::span<const PolicyInfo> policies();

/// Null if there is none of that name.
const PolicyInfo* find_policy(std::string_view name);

// One file of policies/ each.
std::unique_ptr<Policy> make_fifo();
std::unique_ptr<Policy> make_fifo_backfill();
std::unique_ptr<Policy> make_srtf();
std::unique_ptr<Policy> make_priority();
std::unique_ptr<Policy> make_las();
std::unique_ptr<Policy> make_wfs();
std::unique_ptr<Policy> make_rubick();
std::unique_ptr<Policy> make_rubick_e();
std::unique_ptr<Policy> make_rubick_r();
std::unique_ptr<Policy> make_rubick_n();
std::unique_ptr<Policy> make_synergy();
std::unique_ptr<Policy> make_antman();
std::unique_ptr<Policy> make_sia();
std::unique_ptr<Policy> make_gavel();
std::unique_ptr<Policy> make_gavel_mixed();
std::unique_ptr<Policy> make_gavel_simulator();
std::unique_ptr<Policy> make_gavel_mixed_simulator();

}  // namespace tpx
