// SPDX-License-Identifier: Apache-2.0
#include "cmd/jobs/run_on_ranks.hpp"

#include "cmd/jobs/keeper_client.hpp"
#include "cmd/output/job_log.hpp"
#include "cmd/output/output.hpp"
#include "lib/core/host_name.hpp"
#include "lib/exec/agreement.hpp"
#include "lib/exec/session.hpp"

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

namespace tpx::cli {
namespace {

std::string& command() {
    static std::string name;
    return name;
}

// Whether fewer than `most` ranks on this host have a lower number than this one. Collective.
bool is_among_first(const mpi::Comm& comm, int most) {
    const std::vector<std::string> hosts = mpi::all_gather(comm, host_name());
    return std::count(hosts.begin(), hosts.begin() + comm.rank(), host_name()) < most;
}

/// Ignores write errors: there is nowhere left to report them, and the exit status shows the failure.
void print_error(const std::string& message) {
    std::fputs(fmt::format("tpx: {}\n", printable(message, "")).c_str(), stderr);
}

}  // namespace

void set_command(std::string_view name) { command() = name; }

void run_on_ranks(const std::function<Exit(const mpi::Comm&)>& body) {
    // Ranks of different commands would wait for each other forever.
    const auto checked = [&](const mpi::Comm& comm) {
        require_same(comm, {{"the command", fmt::format("tpx {}", command()), {}}});
        return body(comm);
    };
    const Exit exit = mpi::with_ranks(checked, [](Exit status, std::string_view cause) {
        const std::string message = replace_held_paths(std::string{cause}) + lost_keepers_note();
        log_error(message);
        print_json_error(status, message);
        print_error(message);
    });
    close_job_log(int(exit));
    if (exit != Exit::success) throw ExitRequest{exit};
}

Patience::Patience(const mpi::Comm& comm, Integer seconds) : comm_{comm}, limit_{seconds.value_or(60)} {
    guard_.emplace(comm, limit_, [this](const std::string& what) { end_job(what); });
}

Patience::~Patience() {
    mpi::limit_shutdown(limit_, fmt::format("a rank has not ended for {} s (--patience){}", limit_.count(), text_),
                        exit_);
}

void Patience::end_job(const std::string& what) const {
    const std::string rank = comm_.size() > 1 ? fmt::format("rank {}: ", comm_.rank()) : "";
    const std::string message = fmt::format("{}{} (--patience){}", rank, what, text_);
    print_error(message);
    std::fflush(stderr);
    log_error(message);
    mpi::end_job(exit_);
}

Exit with_patience(const mpi::Comm& comm, Integer seconds, const std::function<Exit(Patience&)>& body) {
    Patience patience{comm, seconds};
    Exit exit = Exit::success;
    try {
        exit = body(patience);
    } catch (const mpi::AgreedError&) {
        mpi::barrier(comm);
        throw;
    }
    mpi::barrier(comm);
    return exit;
}

int threads_of(const mpi::Comm& comm, const LimitOptions& options) {
    constexpr int most = 32;
    const int cores = comm.size() == 1 ? static_cast<int>(std::thread::hardware_concurrency()) : 1;
    return static_cast<int>(options.threads.value_or(std::clamp(cores, options.default_threads, most)));
}

void set_workers(const mpi::Comm& comm, const LimitOptions& options, ExecOptions& exec) {
    exec.threads = threads_of(comm, options);
    exec.takes_part = is_among_first(comm, static_cast<int>(options.io_ranks.value_or(comm.size())));
}

}  // namespace tpx::cli
