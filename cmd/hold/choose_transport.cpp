// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/choose_transport.hpp"

#include "lib/core/error.hpp"
#include "lib/core/host_name.hpp"
#include "lib/core/units.hpp"
#include "lib/exec/device/nccl_rounds.hpp"
#include "lib/exec/wire/mpi_rounds.hpp"

#include <algorithm>
#include <chrono>

namespace tpx::cli {
namespace {

constexpr int usual_patience = 60;  // seconds

bool is_between_gpus(const RoundMessage& message) { return message.from.gpu >= 0 && message.to.gpu >= 0; }

/// Adds the staging that NCCL needs to the needs of this host's GPUs. Returns which GPU has no room for it; empty if
/// all have.
std::string add_staging(const mpi::Comm& comm, const HostsPlan& plan, HostGpus& gpus) {
    std::string problem;
    for (const Endpoint& endpoint : endpoints_of(plan.rounds)) {
        if (endpoint.host != comm.rank() || endpoint.gpu < 0) continue;
        const StagingNeed staging = staging_of(plan.rounds, endpoint, is_between_gpus);
        const auto need = std::ranges::find(gpus.needs(), endpoint.gpu, &GpuNeed::gpu);
        const std::uint64_t bytes = staging.sent + staging.received;
        const std::uint64_t others = need == gpus.needs().end() ? memory_of_lists : need->fresh + memory_of_lists;
        const auto& gpu_infos = gpus.gpu_infos();
        if (!gpu_infos.empty() && others + bytes > gpu_infos[static_cast<std::size_t>(endpoint.gpu)].free)
            problem =
                fmt::format("GPU {}: {} of messages do not fit beside {} of new state and lists of copies; {} are free",
                            endpoint.gpu, format_size(bytes), format_size(others),
                            format_size(gpu_infos[static_cast<std::size_t>(endpoint.gpu)].free));
        else if (need != gpus.needs().end())
            need->messages = bytes;
    }
    return problem;
}

/// Why this host cannot use NCCL; empty if it can.
std::string problem_of_host(const mpi::Comm& comm, const HostsPlan& plan, HostGpus& gpus) {
    const bool takes_part = std::ranges::any_of(endpoints_of(plan.rounds), [&](const Endpoint& endpoint) {
        return endpoint.host == comm.rank() && endpoint.gpu >= 0;
    });
    if (!takes_part) return "";
    std::string problem = nccl_problem();
    return problem.empty() ? add_staging(comm, plan, gpus) : problem;
}

/// Why --transport nccl is impossible: the first host that sends or receives in host memory; empty if there is none.
std::string host_with_host_memory(const mpi::Comm& comm, const HostsPlan& plan) {
    const std::vector<std::string> names = mpi::all_gather(comm, host_name());
    for (const Endpoint& endpoint : endpoints_of(plan.rounds))
        if (endpoint.gpu < 0)
            return fmt::format("{} (rank {}): state that moves between hosts is in host memory",
                               names[static_cast<std::size_t>(endpoint.host)], endpoint.host);
    return "";
}

/// The problem of the first host that cannot use NCCL; empty if all hosts can. Collective.
std::string first_problem(const mpi::Comm& comm, const HostsPlan& plan, HostGpus& gpus) {
    std::string mine;
    mpi::all_or_none(comm, [&] {
        mine = problem_of_host(comm, plan, gpus);
        if (!mine.empty()) mine = fmt::format("{} (rank {}): {}", host_name(), comm.rank(), mine);
    });
    for (const std::string& problem : mpi::all_gather(comm, mine))
        if (!problem.empty()) return problem;
    return "";
}

}  // namespace

ChosenTransport choose_transport(const mpi::Comm& comm, const HoldOptions& options, const HostsPlan& plan,
                                 HostGpus& gpus) {
    ChosenTransport chosen{.by_mpi = std::make_unique<MpiRounds>(comm)};
    const bool must_be_nccl = options.transport == "nccl";
    const std::uint64_t bytes = carried_bytes(plan.rounds, plan.rounds_job(), is_between_gpus);
    if (must_be_nccl) chosen.reason = host_with_host_memory(comm, plan);
    if (plan.rounds.empty()) return chosen;
    chosen.name = "mpi";
    if (options.transport == "mpi")
        chosen.reason = "--transport mpi";
    else if (bytes == 0 && chosen.reason.empty())
        chosen.reason = "no tensors move between GPUs of different hosts";
    if (chosen.reason.empty()) chosen.reason = first_problem(comm, plan, gpus);
    if (chosen.reason.empty() && !options.dry_run) try {
            const std::chrono::seconds patience{static_cast<int>(options.patience.value_or(usual_patience))};
            chosen.by_nccl = make_nccl_rounds({comm, comm.rank(), patience}, plan.rounds, *chosen.by_mpi);
        } catch (const mpi::AgreedError& error) {
            chosen.reason = error.what();
        }
    if (!chosen.reason.empty()) {
        for (GpuNeed& need : gpus.needs()) need.messages = 0;
        if (must_be_nccl) throw mpi::AgreedError{failure("--transport nccl: {}", chosen.reason)};
        return chosen;
    }
    chosen.name = "nccl";
    chosen.nccl_bytes = bytes;
    return chosen;
}

void check_transport(const HoldOptions& options, bool is_on_hosts) {
    const std::string& wanted = options.transport;
    if (is_on_hosts && wanted == "ipc")
        throw usage_error("--transport ipc: copies only within a host; use auto, nccl or mpi");
    if (!is_on_hosts && (wanted == "nccl" || wanted == "mpi"))
        throw usage_error("--transport {}: requires hold:NAME and one process on each of several hosts", wanted);
    if ((wanted == "nccl" || wanted == "ipc") && !wants_gpus(options))
        throw usage_error("--transport {}: requires --device cuda or auto", wanted);
}

}  // namespace tpx::cli
