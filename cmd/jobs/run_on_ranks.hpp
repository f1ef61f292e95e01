// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/cli/options.hpp"
#include "lib/exec/exec_options.hpp"
#include "lib/exec/mpi.hpp"
#include "lib/exec/stall_guard.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tpx::cli {

/// Thrown to end the process with `exit` when all messages have been printed.
struct ExitRequest {
    Exit exit;
};

/// Sets the name of the command that this process runs, such as "profile hardware", for run_on_ranks().
void set_command(std::string_view name);

/// Runs `body` on all ranks that were started together, which must run the same command. An error of `body` is printed
/// once, and its exit status ends the process, as does a result other than Exit::success.
void run_on_ranks(const std::function<Exit(const mpi::Comm&)>& body);

/// Ends the job when a rank, or the work of this rank, makes no progress for `seconds`, the value of --patience, or 60
/// seconds. Collective.
class Patience {
public:
    Patience(const mpi::Comm& comm, Integer seconds);

    /// From then on, only the end of with_ranks() is limited; see mpi::limit_shutdown.
    ~Patience();
    Patience(const Patience&) = delete;
    Patience& operator=(const Patience&) = delete;

    /// Sets the end of the message, such as "; out.partial is kept", and the exit status of the job.
    void set_end(std::string text, Exit exit = Exit::failure) {
        text_ = std::move(text);
        exit_ = exit;
    }

private:
    [[noreturn]] void end_job(const std::string& what) const;

    const mpi::Comm& comm_;
    std::chrono::seconds limit_;
    std::string text_;
    Exit exit_ = Exit::failure;
    std::optional<StallGuard> guard_;
};

/// Runs `body` with a Patience, and then waits for all ranks, but no longer than `seconds`. Collective; `body` may only
/// throw mpi::AgreedErrors.
Exit with_patience(const mpi::Comm& comm, Integer seconds, const std::function<Exit(Patience&)>& body);

/// The number of --threads. Without it, a single process uses all cores, at most 32, and each of several processes uses
/// `options.default_threads`.
int threads_of(const mpi::Comm& comm, const LimitOptions& options);

/// Sets how many threads of this rank move tensor data, and whether the rank takes part, according to --threads and
/// --io-ranks. Collective.
void set_workers(const mpi::Comm& comm, const LimitOptions& options, ExecOptions& exec);

}  // namespace tpx::cli
