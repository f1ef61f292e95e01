// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hold/keeper_start.hpp"
#include "lib/core/file.hpp"

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace tpx::cli {

/// A background process that becomes a keeper in two steps: it takes the state, and serves it only once the keepers of
/// all hosts have theirs. Until it
/// serves, it ends with this object and if this process is killed, and leaves nothing.
class WaitingKeeper {
public:
    /// Starts the process. To be called before MPI starts, whose memory the process would keep. Throws Error.
    explicit WaitingKeeper(const KeeperSettings& terms);
    ~WaitingKeeper();
    WaitingKeeper(const WaitingKeeper&) = delete;
    WaitingKeeper& operator=(const WaitingKeeper&) = delete;

    /// Gives the process the socket of the keeper `name`, which it removes when it ends. Throws Error if another keeper
    /// has this name.
    void reserve(const std::string& name);

    /// Gives the state to the process, and returns when it has the state in `place`. Returns why that is host memory
    /// instead, if it is. Throws Error. Precondition: reserve().
    std::string give(const HeldFiles& held, const HoldPlace& place);

    /// Lets the process serve the state, and returns its number. Throws Error if it has ended.
    int serve();

    /// Ends the process, also if it serves.
    void end();

private:
    [[noreturn]] void wait_and_keep(const KeeperSettings& terms) const;
    std::string expect(const std::string& answer) const;

    Fd connection_;
    pid_t process_ = 0;  // 0: it serves, or has ended
    pid_t serving_ = 0;
    std::filesystem::path socket_;
};

}  // namespace tpx::cli
