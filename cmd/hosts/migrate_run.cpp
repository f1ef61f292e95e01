// SPDX-License-Identifier: Apache-2.0
#include "cmd/hosts/migrate_run.hpp"

#include "cmd/jobs/metadata_size.hpp"
#include "cmd/jobs/output_mode.hpp"
#include "cmd/jobs/run_on_ranks.hpp"
#include "lib/core/path.hpp"
#include "lib/exec/arrivals.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <future>

namespace tpx::cli {
namespace {

namespace fs = std::filesystem;

ExchangeResult exchange_in(const HostRun& run, const fs::path& inbox, const ExecOptions& exec) {
    if (!run.team.is_first(run.all.rank())) return {};
    const Side held{run.job.conversion.source_tensors, run.part.held};
    ParcelPacker packer{run.job.cells, held, run.part.files};
    return exchange(run.all,
                    {run.job.change.parcels, run.job.change.relocation.transfers, run.team.rank_of_host, run.team.host,
                     run.part.inbox, packer, inbox},
                    exec);
}

ExecReport write_files(const HostRun& run, const fs::path& folder, const ExecOptions& exec) {
    mpi::barrier(run.host);  // the inbox is complete
    return execute(run.host, run.part.moves, {run.job.conversion.source_tensors, run.part.sources}, run.part.files,
                   {run.job.conversion.target_tensors, run.part.targets}, run.part.draft, folder, exec);
}

void remove_inbox(const HostRun& run, const fs::path& inbox) {
    mpi::all_or_none(run.host, [&] {
        if (run.host.rank() == 0 && ::unlink(inbox.c_str()) != 0) throw system_failure(inbox, errno);
    });
}

/// Does what exchange_in() and then write_files() do, but writes bytes that have arrived while others are in transit.
/// Requires that the host has only one rank: then writing does not communicate, and another thread can do it.
MadeFiles exchange_and_write(const HostRun& run, const fs::path& folder, const fs::path& inbox, ExecOptions exec) {
    const bool forwards = std::ranges::any_of(run.job.change.relocation.transfers, &Transfer::forwards);
    Arrivals arrivals{static_cast<std::uint32_t>(run.part.files.size() - 1), inbox, !forwards};
    exec.arrivals = &arrivals;
    MadeFiles made;
    ExecOptions writing = exec;
    writing.memory -= exchange_memory(exec.memory);
    // If no thread can be started, the files are written after all bytes have arrived.
    constexpr auto policy = std::launch::async | std::launch::deferred;
    std::future<ExecReport> report = std::async(policy, [&] { return write_files(run, folder, writing); });
    try {
        made.exchanged = exchange_in(run, inbox, exec);
    } catch (...) {
        arrivals.stop();
        throw;
    }
    run_together(run.all, [&] {
        while (report.wait_for(std::chrono::milliseconds{1}) == std::future_status::timeout) mpi::call_hook(true);
        made.report = report.get();
        remove_inbox(run, inbox);
    });
    return made;
}

}  // namespace

MadeFiles make_files(const HostRun& run, const fs::path& folder, const ReadRecord& record, const ExecOptions& exec) {
    const fs::path inbox =
        folder /
        fmt::format("tpx.inbox{}", run.job.purpose == MigrateTarget::shared ? fmt::format(".{}", run.team.host) : "");
    run.part.files.back().path = inbox;
    if (run.team.is_first(run.all.rank())) run.part.inbox.create(inbox);
    MadeFiles made;
    if (run.host.size() == 1 && exec.memory >= 3 * exchange_memory(exec.memory)) {
        made = exchange_and_write(run, folder, inbox, exec);
    } else {
        made.exchanged = exchange_in(run, inbox, exec);
        run_together(run.all, [&] {
            made.report = write_files(run, folder, exec);
            remove_inbox(run, inbox);
        });
    }
    run_together(run.all, [&] { check_unchanged(run.host, record); });
    return made;
}

MigrateResult sum_results(const HostRun& run, const MadeFiles& made) {
    const std::size_t hosts = run.team.hosts.size();
    constexpr std::size_t before = 6;
    std::vector<std::uint64_t> sums(before + 2 * hosts);
    if (run.team.is_first(run.all.rank())) {
        const ExecReport& report = made.report;
        sums = {report.bytes_read, report.bytes_written,    report.bytes_shared,
                report.bytes_kept, made.exchanged.messages, report.refused_direct ? 1U : 0U};
        sums.resize(before + 2 * hosts);
        sums[before + run.team.host] = made.exchanged.sent;
        sums[before + hosts + run.team.host] = made.exchanged.received;
    }
    mpi::all_sum(run.all, sums);
    MigrateResult done;
    done.report.bytes_read = sums[0];
    done.report.bytes_written = sums[1];
    done.report.bytes_shared = sums[2];
    done.report.bytes_kept = sums[3];
    done.messages = sums[4];
    done.report.refused_direct = sums[5] > 0;
    const auto sent = sums.begin() + before;
    const auto received = sent + static_cast<std::ptrdiff_t>(hosts);
    done.sent.assign(sent, received);
    done.received.assign(received, sums.end());
    return done;
}

void add(MigrateResult& done, const MigrateResult& other) {
    done.report.bytes_read += other.report.bytes_read;
    done.report.bytes_written += other.report.bytes_written;
    done.report.bytes_shared += other.report.bytes_shared;
    done.report.bytes_kept += other.report.bytes_kept;
    done.report.refused_direct = done.report.refused_direct || other.report.refused_direct;
    done.messages += other.messages;
    for (std::size_t h = 0; h < done.sent.size(); ++h) {
        done.sent[h] += other.sent[h];
        done.received[h] += other.received[h];
    }
}

ExecOptions limits_of(const mpi::Comm& comm, const MigrateRequest& options, const Migration& job) {
    ExecOptions exec;
    // An exchange needs no more memory than the smallest buffers that limits_within() allows.
    if (options.limits.memory) exec = limits_within(comm, *options.limits.memory, metadata_of(job.conversion, {}));
    set_workers(comm, options.limits, exec);
    return exec;
}

void limit_modes(const ReadRecord& record, const fs::path& source, const fs::path& output) {
    if (path_exists(source)) ::umask(::umask(0777) | static_cast<mode_t>(denied_modes(record, source, output)));
}

}  // namespace tpx::cli
