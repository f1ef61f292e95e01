// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/hold/keeper_start.hpp"
#include "lib/core/file.hpp"
#include "lib/exec/gpu_memory.hpp"

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tpx::cli {

/// A background process that becomes a keeper in two steps: it receives the state, and serves requests only once the
/// keepers of all hosts have received theirs. Before that, it ends and leaves nothing behind if this object is
/// destroyed or the process that owns the object is killed.
class WaitingKeeper {
public:
    /// Starts the process. Must be called before MPI starts; otherwise the process would keep MPI's memory. Throws
    /// Error.
    explicit WaitingKeeper(const KeeperSettings& terms);
    ~WaitingKeeper();
    WaitingKeeper(const WaitingKeeper&) = delete;
    WaitingKeeper& operator=(const WaitingKeeper&) = delete;

    /// Gives the process the socket of the keeper `name`, which it removes when it ends. Throws Error if another keeper
    /// has this name.
    void reserve(const std::string& name);

    /// Lets the process allocate memory of the GPUs of `place` for the segments of `ranks`, which have `sizes` bytes.
    /// Throws Error if that fails; the process then has no memory of GPUs. Precondition: reserve().
    std::vector<GpuHandle> allocate(const HoldPlace& place, std::span<const int> ranks,
                                    std::span<const std::uint64_t> sizes);

    /// Gives the state to the process, and returns once the process has it. If memory was allocated, the parts are
    /// those of its ranks, in their order, with documents that name the memory. Throws Error. Precondition: reserve().
    void give(const HeldFiles& held);

    /// Makes the process serve the state, and returns its process ID. Throws Error if the process has ended.
    int serve();

    /// Ends the process, even if it already serves requests.
    void end();

private:
    [[noreturn]] void wait_and_keep(const KeeperSettings& terms) const;
    std::string expect(const std::string& answer) const;

    Fd connection_;
    pid_t process_ = 0;  // 0: it serves, or has ended
    pid_t serving_ = 0;
    SocketFile socket_;
};

}  // namespace tpx::cli
