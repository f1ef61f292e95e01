// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hold/hold_gpus.hpp"
#include "cmd/hold/hold_state.hpp"

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tpx::cli {

/// The socket of a new keeper, which is removed unless a keeper takes it over.
class NewSocket {
public:
    /// Throws Error if a keeper has this name.
    explicit NewSocket(const std::string& name);

    /// Takes over a socket that another process created at `path`.
    NewSocket(std::filesystem::path path, Fd listener) : file_{std::move(path)}, listener_{std::move(listener)} {}
    ~NewSocket();
    NewSocket(const NewSocket&) = delete;
    NewSocket& operator=(const NewSocket&) = delete;

    const SocketFile& file() const { return file_; }
    int number() const { return listener_.get(); }
    Fd take() { return std::move(listener_); }

private:
    SocketFile file_;
    Fd listener_;
};

/// Settings of a keeper.
struct KeeperSettings {
    std::string name;
    std::optional<int> timeout;  ///< in seconds; unset: none
    bool is_empty = false;       ///< waits for exports
};

/// The numbers of all open files except `kept` and the standard streams.
std::vector<int> files_but(const std::set<int>& kept);

/// Detaches this process from the terminal, working directory and session of its parent.
void become_background();

/// Starts a keeper in a background process, and returns the process when it has the state in `place`, which becomes
/// host memory if move_to_gpus() leaves it there. Throws Error if the state cannot be moved there; after a
/// DirectFailure, the socket can still be used.
int start_in_background(const KeeperSettings& terms, NewSocket& socket, HeldFiles held, HoldPlace& place,
                        const DirectMoves* direct);

/// Moves the state to the GPUs of `place`. If move_to_gpus() returns a reason to keep it in host memory, changes
/// `place` to host memory. Throws Error as move_to_gpus() does.
void bring_to(std::vector<HeldPart>& parts, HoldPlace& place, const DirectMoves* direct);

/// Ends a keeper that start_in_background() has started.
void end_keeper(int process, const SocketFile& socket);

/// Moves the state to `place` in this process, as start_in_background() does. Returns the open files that keep() does
/// not need. Only keep() may close them: the objects that own them must not close other files of these numbers later.
std::vector<int> prepare_to_keep(const NewSocket& socket, HeldFiles& held, HoldPlace& place, const DirectMoves* direct);

/// Keeps the state in this process until a keeper ends; closes the files `unneeded`.
[[noreturn]] void keep(const KeeperSettings& terms, NewSocket& socket, HeldFiles held,
                       const std::vector<int>& unneeded = {});

}  // namespace tpx::cli
