// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace tpx::formats {

/// A record of a switch of managed stores: one store has the complete new state (prepared), or the decision was made
/// (commit, abort).
struct SwitchRecord {
    enum class SwitchPhase { prepared, commit, abort };
    std::string change;
    std::uint64_t epoch = 0;
    std::string state;  ///< the name of the new state
    SwitchPhase phase = SwitchPhase::prepared;
    std::string decision_dir;  ///< the folder on shared storage that also contains the decision; empty: none

    bool is_of(const SwitchRecord& other) const { return change == other.change && epoch == other.epoch; }
};

/// The text of a record's file.
std::string to_text(const SwitchRecord& record);

/// Parses the text of a record; `file` names it in errors. Throws Error if it is damaged.
SwitchRecord parse_record(const std::string& text, const std::filesystem::path& file);

/// The record in `file`, or std::nullopt if there is no such file. Throws Error if the record is damaged.
std::optional<SwitchRecord> read_record(const std::filesystem::path& file);

}  // namespace tpx::formats
