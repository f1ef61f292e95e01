// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hold_gpus.hpp"
#include "cmd/hold_state.hpp"

#include <filesystem>
#include <optional>
#include <string>

namespace tpx::cli {

/// The socket of a new keeper, which is removed unless a keeper takes it over.
class NewSocket {
public:
    /// Throws Error if a keeper has this name.
    explicit NewSocket(const std::string& name);
    ~NewSocket();
    NewSocket(const NewSocket&) = delete;
    NewSocket& operator=(const NewSocket&) = delete;

    const std::filesystem::path& path() const { return path_; }
    int number() const { return listener_.get(); }
    Fd take() { return std::move(listener_); }

private:
    std::filesystem::path path_;
    Fd listener_;
};

/// What a keeper is told.
struct KeeperTerms {
    std::string name;
    std::optional<int> timeout;  ///< in seconds; unset: none
    bool is_empty = false;       ///< waits for exports
};

/// Starts a keeper in a background process, and returns the process when it has the state in `place`. Throws Error if
/// it cannot bring it there.
int start_in_background(const KeeperTerms& terms, NewSocket& socket, HeldFiles held, const HoldPlace& place);

/// Ends a keeper that start_in_background() has started.
void end_keeper(int process, const std::filesystem::path& socket);

/// Brings the state to `place` in this process, and closes whatever keep() does not need. Throws Error if that fails.
void prepare_to_keep(const NewSocket& socket, HeldFiles& held, const HoldPlace& place);

/// Keeps the state in this process until a keeper ends.
[[noreturn]] void keep(const KeeperTerms& terms, NewSocket& socket, HeldFiles held);

}  // namespace tpx::cli
