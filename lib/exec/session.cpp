// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/session.hpp"

#include "lib/core/unexpected.hpp"

#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>

namespace tpx::mpi {
namespace {

// Without MPI, each rank would believe that it is the only one, and all would write the same files.
void refuse_srun_without_mpi() {
    const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
    if (tasks != nullptr && std::atoi(tasks) > 1)
        throw failure("srun started {} tasks without MPI: use srun --mpi=pmix, or mpirun", tasks);
}

struct EndLimit {
    std::chrono::seconds time{0};
    std::string message;
    Exit exit = Exit::failure;
};

EndLimit& end_limit() {
    static EndLimit limit;
    return limit;
}

// Waits for all ranks: all reports must be written before mpiexec sees that a rank has failed.
void finish(const Report& report) {
    const EndLimit& limit = end_limit();
    std::mutex mutex;
    std::condition_variable_any ended;
    const auto watch = [&](const std::stop_token& stop) {
        std::unique_lock lock{mutex};
        // In steps, so that the time in which this process is stopped does not count.
        constexpr std::chrono::milliseconds step{100};
        for (auto waited = step; waited <= limit.time; waited += step)
            if (ended.wait_for(lock, stop, step, [&] { return stop.stop_requested(); })) return;
        report(limit.exit, limit.message);
        ::_exit(static_cast<int>(limit.exit));  // MPI is in use by the main thread
    };
    std::jthread watchdog;
    try {
        if (limit.time.count() > 0) watchdog = std::jthread{watch};
    } catch (const std::system_error&) {  // there are too many threads: wait without a limit
    }
    stop();
}

Exit alone(const std::function<Exit(const Comm&)>& body, const Report& report) {
    try {
        refuse_srun_without_mpi();
        return body(Comm{});
    } catch (const Error& error) {
        report(error.exit(), error.what());
        return error.exit();
    } catch (const std::exception& error) {
        report(Exit::failure, unexpected(error).what());
        return Exit::failure;
    }
}

}  // namespace

Exit with_ranks(const std::function<Exit(const Comm&)>& body, const Report& report) {
    if (!started_as_rank() || launched_ranks() == 1) return alone(body, report);
    start();
    int rank = 0;
    Exit exit = Exit::success;
    try {
        const Comm world = Comm::world();
        rank = world.rank();
        exit = body(world);
    } catch (const AgreedError& error) {
        // Report it before MPI ends, because mpiexec kills the other ranks as soon as the first one ends with a
        // failure.
        if (rank == 0) report(error.exit(), error.what());
        exit = error.exit();
    } catch (const Error& error) {
        report(error.exit(), fmt::format("rank {}: {}", rank, error.what()));
        abort(static_cast<int>(error.exit()));
    } catch (const std::exception& error) {
        report(Exit::failure, fmt::format("rank {}: {}", rank, unexpected(error).what()));
        abort(static_cast<int>(Exit::failure));
    }
    finish(report);
    return exit;
}

void limit_shutdown(std::chrono::seconds limit, std::string message, Exit exit) {
    end_limit() = {limit, std::move(message), exit};
}

void end_job(Exit exit) {
    abort(static_cast<int>(exit));
    ::_exit(static_cast<int>(exit));
}

}  // namespace tpx::mpi
