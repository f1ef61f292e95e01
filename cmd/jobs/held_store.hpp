// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace tpx::cli {

/// What a keeper of this host holds, as a plain folder of links: the part of this host of a checkpoint that the keepers
/// of all hosts hold together. The folder is removed with this object.
class HeldStore {
public:
    /// `name` is "hold:NAME". The folder is empty if no keeper of this host has that name, or if it was killed. Throws
    /// Error if the keeper does not answer, or if what it holds is malformed.
    HeldStore(const std::string& name, const std::string& host);
    ~HeldStore();
    HeldStore(const HeldStore&) = delete;
    HeldStore& operator=(const HeldStore&) = delete;

    const std::filesystem::path& folder() const { return folder_; }

    /// Whether the folder contains files, because a keeper of this host holds state.
    bool has_state() const { return has_state_; }

    /// Whether the keeper of this host was killed, with what it held.
    bool was_killed() const { return was_killed_; }

private:
    std::filesystem::path folder_;
    bool has_state_ = false;
    bool was_killed_ = false;
};

}  // namespace tpx::cli
