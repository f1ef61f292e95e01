// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace tpx::formats::megatron {

inline constexpr std::string_view tracker_name = "latest_checkpointed_iteration.txt";

/// The number in the name of a directory iter_NNNNNNN.
std::optional<std::int64_t> iteration_of(const std::filesystem::path& directory);

/// The directory that the tracker file of `root` names. Throws Error when it names none.
std::filesystem::path tracked_directory(const std::filesystem::path& root);

}  // namespace tpx::formats::megatron
