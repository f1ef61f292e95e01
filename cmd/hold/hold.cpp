// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/hold.hpp"

#include "cmd/hold/choose_transport.hpp"
#include "cmd/hold/direct_moves.hpp"
#include "cmd/hold/gpu_source.hpp"
#include "cmd/hold/held_names.hpp"
#include "cmd/hold/hold_gpus.hpp"
#include "cmd/hold/hold_on_hosts.hpp"
#include "cmd/hold/hold_seconds.hpp"
#include "cmd/hold/hold_state.hpp"
#include "cmd/hold/keeper_start.hpp"
#include "cmd/jobs/keeper_client.hpp"
#include "cmd/jobs/open_checkpoint.hpp"
#include "cmd/jobs/run_on_ranks.hpp"
#include "cmd/output/output.hpp"
#include "cmd/output/own_job.hpp"
#include "formats/files/profile/hardware_file.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/in_path.hpp"
#include "lib/core/path.hpp"
#include "lib/core/units.hpp"
#include "lib/exec/local_socket.hpp"
#include "lib/exec/stop_signals.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>
#include <vector>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

std::optional<int> timeout_of(const HoldOptions& options) {
    constexpr int usual = 300;
    return options.timeout.empty() ? usual : hold_seconds(options.timeout, "--timeout");
}

/// What is to be held, as planned.
struct HoldPlan {
    const HoldJob* job = nullptr;  ///< null: nothing yet, exports
    HoldPlace place;
    std::optional<DirectMoves> direct;  ///< what moves from GPU to GPU; unset: all is in memory of the host before

    const DirectMoves* moves() const { return direct ? &*direct : nullptr; }
};

/// Bytes of each way, and what each GPU needs.
Json json_of(const DirectMoves& moves) {
    Json json{{"gpu", moves.gpu_bytes()},
              {"same_gpu", moves.links()[LinkClass::same_gpu]},
              {"nvlink", moves.links()[LinkClass::nvlink]},
              {"pcie", moves.links()[LinkClass::pcie]},
              {"host", moves.host_bytes()},
              {"needs", Json::array()}};
    for (const GpuNeed& need : moves.needs())
        json["needs"].push_back({{"gpu", need.gpu},
                                 {"old", need.old},
                                 {"new", need.fresh},
                                 {"staging", need.staging},
                                 {"free", need.free},
                                 {"direct", need.is_direct}});
    return json;
}

/// Says which way the tensors go, and, before they do, what each GPU needs.
void note_moves(const HoldOptions& options, const DirectMoves& moves, Output& out) {
    const LinkBytes& links = moves.links();
    const std::uint64_t within = links[LinkClass::same_gpu], between = moves.gpu_bytes() - within;
    LinkBytes peers;
    for (const LinkClass kind : {LinkClass::nvlink, LinkClass::pcie}) peers[kind] = links[kind];
    const std::string kinds = to_text(peers);
    out.note("copying {} of tensors from GPU to GPU, {} within a GPU and {} through host memory{}{}",
             format_size(between), format_size(within), format_size(moves.host_bytes()),
             kinds.empty() ? "" : "; between GPUs: ", kinds);
    for (const GpuNeed& need : moves.needs()) {
        if (!need.is_direct)
            out.note(
                "GPU {}: {} of new state and the lists of copies do not fit into the {} that are free; its tensors are "
                "copied through host memory",
                need.gpu, format_size(need.fresh), format_size(need.free));
        else if (options.dry_run)
            out.note("GPU {}: needs {} for new state and {} for lists of copies, beside {} of old state; {} are free",
                     need.gpu, format_size(need.fresh), format_size(need.staging), format_size(need.old),
                     format_size(need.free));
    }
}

/// What the command prints about a keeper that `process` is.
void report(const HoldOptions& options, const HoldPlan& plan, double seconds, int process, Output& out) {
    const HoldJob* const job = plan.job;
    const HoldPlace& place = plan.place;
    const std::optional<int> timeout = timeout_of(options);
    if (out.json()) {
        Json json{{"name", options.name}, {"held", process != 0}, {"ranks", Json::array()}, {"timeout", nullptr}};
        if (process != 0) json["process"] = process;
        if (timeout) json["timeout"] = *timeout;
        json["bytes"] = job != nullptr ? job->bytes : 0;
        if (job != nullptr) {
            json["source"] = options.checkpoint;
            json["layout"] = to_json(job->job.target.layout);
            json["memory_free"] = job->room;
            json["gpus"] = place.gpus;
            json["moved"] = plan.direct && !place.gpus.empty() ? json_of(*plan.direct) : Json(nullptr);
            json["seconds"] = seconds;
            json["notes"] = job->job.conversion.notes;
            for (const int rank : *job->job.target.held) json["ranks"].push_back(rank);
        }
        return out.object("tpx.hold/1", json);
    }
    const std::string end = timeout ? fmt::format("for {}", format_seconds(*timeout)) : "until it is released";
    if (job == nullptr)
        return out.result("{}{}: process {} waits {} for exported state\n", held_prefix, options.name, process, end);
    const std::string what = fmt::format(
        "{} of {} ({}){}", counted(job->job.target.held->size(), "rank"), to_string(job->job.target.layout),
        format_size(job->bytes), place.gpus.empty() ? "" : fmt::format(" on GPU {}", fmt::join(place.gpus, ", ")));
    if (process == 0)
        return out.result("{}: {} would be held; {} are free\n", options.checkpoint, what, format_size(job->room));
    out.result("{}{}: process {} holds {} {}, or until all ranks are taken\n", held_prefix, options.name, process, what,
               end);
}

/// With --device auto: says why the state is in host memory.
void note_reason(const HoldPlace& place, Output& out) {
    if (!place.reason.empty()) out.note("the state is held in host memory: {}", place.reason);
}

/// Leaves the state to a keeper, which is this process or one that it starts.
void start_keeper(const HoldOptions& options, NewSocket& socket, HoldPlan plan, HeldFiles held, Output& out) {
    HoldPlace& place = plan.place;
    const KeeperSettings terms{options.name, timeout_of(options), options.empty};
    const double seconds = held.seconds;
    const bool was_on_gpu = !place.gpus.empty();
    if (options.foreground) {
        const std::vector<int> unneeded = prepare_to_keep(socket, held, place, plan.moves());
        if (was_on_gpu) note_reason(place, out);
        report(options, plan, seconds, ::getpid(), out);
        out.finish();
        keep(terms, socket, std::move(held), unneeded);
    }
    const int process = start_in_background(terms, socket, std::move(held), place, plan.moves());
    socket.take();  // the keeper removes it
    try {
        if (was_on_gpu) note_reason(place, out);
        report(options, plan, seconds, process, out);
        out.finish();
    } catch (const Error&) {  // the user would not know that it is held
        end_keeper(process, socket.file());
        throw;
    }
}

/// Throws Error (usage) if a launcher started more than one process on this host: one keeper holds the state of all.
void check_alone_on_host() {
    for (const char* variable : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE"}) {
        const char* count = std::getenv(variable);
        if (count != nullptr && std::atoi(count) > 1)
            throw usage_error("start one process per host ({}={})", variable, count);
    }
}

/// A call of the command that reads a checkpoint.
struct HoldRun {
    const HoldOptions& given;
    const HoldOptions& options;
    std::optional<NewSocket>& socket;
    std::optional<StopSignals>& signals;
    Output& out;
    std::optional<HoldPlace> place = {};  ///< once chosen, for this process may have used CUDA since
};

/// For --transport ipc: throws Error unless all tensors are copied from GPU to GPU.
void check_all_direct(const HoldPlan& plan) {
    if (!plan.direct) throw failure("--transport ipc: the new state is not in GPU memory: {}", plan.place.reason);
    for (const GpuNeed& need : plan.direct->needs())
        if (!need.is_direct)
            throw failure(
                "--transport ipc: GPU {}: {} of new state and the lists of copies do not fit into the {} that are free",
                need.gpu, format_size(need.fresh), format_size(need.free));
    if (plan.direct->host_bytes() > 0)
        throw failure(
            "--transport ipc: {} of tensors can only be copied through host memory, because of their dtypes "
            "or because they are not in GPU memory",
            format_size(plan.direct->host_bytes()));
}

/// Holds a checkpoint, which `gpus` has opened if it is in memory of GPUs and not null. Throws DirectFailure if it
/// cannot be copied from there.
void hold_from(HoldRun& run, GpuSource* gpus) {
    HoldOptions options = run.options;
    ReadRecord record;
    options.checkpoint = path_without_links(run.given.checkpoint);
    HoldJob job = prepare_hold(options);
    if (gpus == nullptr) check_fits(job, options.checkpoint);
    if (!run.place)
        run.place = in_path(run.given.checkpoint, [&] {
            return choose_place(options, *job.job.target.held, job.job.conversion.draft.files);
        });
    HoldPlan plan{&job, *run.place, {}};
    note_reason(plan.place, run.out);
    if (gpus != nullptr && !plan.place.gpus.empty()) {
        plan.direct.emplace(job, plan.place, *gpus);
        job.saved = plan.direct->gpu_bytes();
    }
    if (options.transport == "ipc") check_all_direct(plan);
    if (gpus != nullptr) check_fits(job, options.checkpoint);
    record.seal();
    options.checkpoint = run.given.checkpoint;
    for (const std::string& note : job.job.conversion.notes) run.out.note("{}", note);
    if (plan.direct) note_moves(options, *plan.direct, run.out);
    if (options.dry_run) return report(options, plan, 0, 0, run.out);
    check_not_stopped(&run.signals->signal());
    HeldFiles held = read_into_memory(job, options, record, *run.signals, plan.moves(), run.out);
    if (gpus != nullptr) gpus->stop_reader();
    check_not_stopped(&run.signals->signal());
    run.signals.reset();
    start_keeper(options, *run.socket, std::move(plan), std::move(held), run.out);
}

void hold(const HoldOptions& given, Output& out) {
    HoldOptions options = given;
    timeout_of(options);
    check_rank_gpus(options);
    check_transport(options, is_on_hosts(options));
    if (is_on_hosts(options)) return hold_on_hosts(options, timeout_of(options), out);
    // A wrong file is an error without GPUs, too.
    if (!options.hardware.empty()) formats::read_hardware(options.hardware);
    std::optional<NewSocket> socket;
    std::optional<StopSignals> signals;  // so that an end removes the socket
    if (!options.dry_run && !options.empty) signals.emplace();
    if (!options.dry_run) socket.emplace(options.name);
    if (Fd other; options.dry_run && connect_to(keeper_socket(options.name), other) == ConnectResult::connected)
        throw name_taken_error(options.name);
    if (options.empty) return start_keeper(options, *socket, {}, {}, out);
    HoldRun run{given, options, socket, signals, out};
    std::string reason;
    const auto source = wants_gpus(options) ? open_gpu_source(given.checkpoint, reason) : nullptr;
    const bool must_be_direct = options.transport == "ipc";
    if (must_be_direct && source == nullptr)
        throw failure("--transport ipc: {}",
                      reason.empty() ? fmt::format("{} is not in GPU memory", given.checkpoint) : reason);
    if (!reason.empty()) out.note("copying through host memory instead: {}", reason);
    if (source == nullptr) return hold_from(run, nullptr);
    try {
        return hold_from(run, source.get());
    } catch (const DirectFailure& error) {
        if (must_be_direct) throw;
        reason = error.what();
    } catch (const Error& error) {
        if (must_be_direct || !source->has_failed()) throw;
        reason = error.what();
    }
    if (signals) check_not_stopped(&signals->signal());
    out.note("copying through host memory instead: {}", reason);
    if (!signals && !options.dry_run) signals.emplace();
    source->stop_reader();
    end_held_reading(given.checkpoint.substr(held_prefix.size()));
    hold_from(run, nullptr);
}

}  // namespace

void run_hold(const HoldOptions& options, Output& out) {
    const bool asks = options.list || !options.release.empty();
    if (!asks && is_on_hosts(options)) return hold(options, out);
    if (!asks) check_alone_on_host();
    act_as_own_job();
    Output own{out.json(), out.quiet()};
    if (options.list)
        list_held(own);
    else if (!options.release.empty())
        release_held(options.release, own);
    else
        hold(options, own);
    own.finish();
}

}  // namespace tpx::cli
