// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "formats/files/store/manifest.hpp"
#include "formats/files/store/switch_record.hpp"
#include "lib/core/file.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpx::cli {

/// The prefix of the names in staging of folders that were in place of the link `current`. They may contain data, so
/// tpx never removes them.
inline constexpr std::string_view replaced_current_prefix = "replaced-current-";

/// The folders of a store that a run creates. The destructor removes them, unless the store contains something.
class CreatedStore {
public:
    CreatedStore() = default;
    /// Finds the folders that are missing: parts of the store, the store itself, and its parents.
    explicit CreatedStore(const std::filesystem::path& store);
    ~CreatedStore() { remove_if_empty(); }
    CreatedStore(CreatedStore&& other) noexcept
        : parts_{std::exchange(other.parts_, {})}, folders_{std::exchange(other.folders_, {})} {}
    CreatedStore& operator=(CreatedStore&& other) noexcept {
        std::swap(parts_, other.parts_);
        std::swap(folders_, other.folders_);
        return *this;
    }

    /// Creates the folders that are missing.
    void create() const;

private:
    void remove_if_empty() noexcept;

    std::vector<std::filesystem::path> parts_;    ///< folders in the store
    std::vector<std::filesystem::path> folders_;  ///< missing ones, the deepest first
};

/// The store of one host, a folder:
///
///   states/JOB-ITERATION-EPOCH/   a complete state: files and manifest.json
///   staging/CHANGE*               a state that is being written
///   current                       a link to the state that a job starts from
///   prepared, decision            records of a switch, see SwitchRecord
///
/// Every change is on disk when the call returns. Functions throw Error "PATH: cause".
class NodeStore {
public:
    explicit NodeStore(std::filesystem::path folder) : folder_{std::move(folder)} {}

    const std::filesystem::path& folder() const { return folder_; }
    std::filesystem::path state(const std::string& name) const { return folder_ / "states" / name; }
    std::filesystem::path staging(const std::string& change) const { return folder_ / "staging" / change; }

    /// Creates the folders of `created`, and locks the store until the result is destroyed. Throws Error if another run
    /// has locked the store for longer than a reader needs.
    Fd create_and_lock(const CreatedStore& created) const;
    /// Locks the store until the result is destroyed; empty if another run has locked it, or if there is no store.
    Fd try_to_lock() const;
    /// Keeps remove_unused_state() from removing a state until the result is destroyed.
    Fd use_state(const std::string& state) const;

    /// The name of the current state; empty if there is none. Throws Error if the link cannot be used.
    std::string current() const;
    /// The name of the state that `current` links to, even if this state is missing; empty if `current` does not link
    /// to a state.
    std::string linked_state() const;
    /// Makes a state current. Moves a folder that is in place of the link `current` to staging.
    void make_current(const std::string& state) const;

    /// The manifest of a state.
    formats::Manifest manifest(const std::string& state) const;

    std::optional<formats::SwitchRecord> prepared() const { return formats::read_record(folder_ / "prepared"); }
    std::optional<formats::SwitchRecord> decision() const { return formats::read_record(folder_ / "decision"); }
    /// Writes a record, which replaces an earlier one of its kind.
    void write(const formats::SwitchRecord& record) const;
    void remove_prepared() const;
    /// Removes the records that cannot be read.
    void remove_damaged_records() const;

    /// The names of all states, and of all entries in staging, sorted.
    std::vector<std::string> states() const;
    std::vector<std::string> stagings() const;

    /// Moves the complete state of `change` from staging to states/`state`, replacing any state of this name.
    void promote_staged_state(const std::string& change, const std::string& state) const;
    /// Undoes promote_staged_state(): the state is in staging again. A state of this name that another change made is
    /// removed.
    void return_to_staging(const std::string& change, const std::string& state) const;
    /// Removes a state that is not current, if it exists.
    void remove_state(const std::string& state) const;
    /// Like remove_state(), but returns false if another run uses the state.
    bool remove_unused_state(const std::string& state) const;
    /// Renames an entry of staging, replacing any entry that has the new name.
    void rename_staging(const std::string& from, const std::string& to) const;
    /// Removes an entry of staging; `name` is one that stagings() returns.
    void remove_staging(const std::string& name) const;

private:
    std::filesystem::path folder_;
};

}  // namespace tpx::cli
