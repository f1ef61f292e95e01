// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/hold.hpp"

#include "cmd/cli/positive.hpp"
#include "cmd/hold/hold_state.hpp"
#include "cmd/hold/keeper_start.hpp"
#include "cmd/jobs/keeper_client.hpp"
#include "cmd/jobs/ranks.hpp"
#include "cmd/jobs/reading.hpp"
#include "cmd/output/output.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/in_path.hpp"
#include "lib/core/path.hpp"
#include "lib/core/units.hpp"
#include "lib/exec/local_socket.hpp"
#include "lib/exec/signals.hpp"

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
    if (options.timeout == "none") return std::nullopt;
    return positive(options.timeout, "--timeout", usual);
}

/// What the command prints about a keeper that `process` is.
void report(const HoldOptions& options, const HoldJob* job, const HoldPlace& place, double seconds, int process,
            Output& out) {
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
void start_keeper(const HoldOptions& options, NewSocket& socket, const HoldJob* job, HoldPlace place, HeldFiles held,
                  Output& out) {
    const KeeperTerms terms{options.name, timeout_of(options), options.empty};
    const double seconds = held.seconds;
    const bool was_on_gpu = !place.gpus.empty();
    if (options.foreground) {
        const std::vector<int> unneeded = prepare_to_keep(socket, held, place);
        if (was_on_gpu) note_reason(place, out);
        report(options, job, place, seconds, ::getpid(), out);
        out.finish();
        keep(terms, socket, std::move(held), unneeded);
    }
    const int process = start_in_background(terms, socket, std::move(held), place);
    socket.take();  // the keeper removes it
    try {
        if (was_on_gpu) note_reason(place, out);
        report(options, job, place, seconds, process, out);
        out.finish();
    } catch (const Error&) {  // the user would not know that it is held
        end_keeper(process, socket.path());
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

void hold(const HoldOptions& given, Output& out) {
    HoldOptions options = given;
    timeout_of(options);
    check_rank_gpus(options);
    std::optional<NewSocket> socket;
    check_alone_on_host();
    std::optional<StopSignals> signals;  // so that an end removes the socket
    if (!options.dry_run && !options.empty) signals.emplace();
    if (!options.dry_run) socket.emplace(options.name);
    if (Fd other; options.dry_run && connect_to(keeper_socket(options.name), other) == Contact::connected)
        throw name_is_taken(options.name);
    if (options.empty) return start_keeper(options, *socket, nullptr, {}, {}, out);
    ReadRecord record;
    options.checkpoint = path_without_links(given.checkpoint);
    const HoldJob job = prepare_hold(options);
    check_fits(job, options.checkpoint);
    const HoldPlace place = in_path(given.checkpoint, [&] { return choose_place(options, job); });
    note_reason(place, out);
    record.seal();
    options.checkpoint = given.checkpoint;
    for (const std::string& note : job.job.conversion.notes) out.note("{}", note);
    if (options.dry_run) return report(options, &job, place, 0, 0, out);
    check_not_stopped(&signals->signal());
    HeldFiles held = read_into_memory(job, options, record, *signals, out);
    check_not_stopped(&signals->signal());
    signals.reset();
    start_keeper(options, *socket, &job, place, std::move(held), out);
}

bool is_number(const Json& object, const char* key) { return object.contains(key) && object[key].is_number(); }

/// Whether an answer to "list" contains what print_state() prints.
bool is_state(const Json& state) {
    const auto is_rank = [](const Json& rank) {
        return rank.is_object() && is_number(rank, "rank") && rank.contains("state") && rank["state"].is_string() &&
               (!rank.contains("by") || is_number(rank, "by")) &&
               (!rank.contains("bytes") || is_number(rank, "bytes")) &&
               (!rank.contains("gpu") || is_number(rank, "gpu")) &&
               (!rank.contains("iteration") || is_number(rank, "iteration"));
    };
    return is_number(state, "process") && state.contains("seconds_left") &&
           (state["seconds_left"].is_null() || state["seconds_left"].is_number()) && state.contains("ranks") &&
           state["ranks"].is_array() && std::ranges::all_of(state["ranks"], is_rank);
}

/// What the keeper `name` says about itself, or {"name", "problem"}; nothing if it has ended.
std::optional<Json> state_of(const std::string& name) {
    constexpr std::chrono::seconds patience{2};
    std::optional<KeeperClient> keeper;
    try {
        keeper.emplace(name);
    } catch (const Error&) {
        return std::nullopt;
    }
    try {
        Json state = keeper->request({{"op", "list"}}, patience);
        if (!is_state(state)) return Json{{"name", name}, {"problem", "unknown answer of the keeper"}};
        state["name"] = name;
        return state;
    } catch (const Error&) {
        if (keeper->has_ended()) return std::nullopt;
        return Json{{"name", name}, {"problem", "still reads its checkpoint, or does not answer"}};
    }
}

void print_state(const Json& state, Output& out) {
    if (state.contains("problem"))
        return out.result("{}{}  {}\n", held_prefix, state["name"].get<std::string>(),
                          state["problem"].get<std::string>());
    const std::string remaining = state["seconds_left"].is_null()
                                      ? "no timeout"
                                      : fmt::format("{} left", format_seconds(state["seconds_left"].get<double>()));
    out.result("{}{}  process {}, {}\n", held_prefix, state["name"].get<std::string>(), state["process"].get<int>(),
               remaining);
    for (const Json& rank : state["ranks"]) {
        out.result("  rank {}: {}", rank["rank"].get<int>(), rank["state"].get<std::string>());
        if (rank.contains("gpu")) out.result(" on GPU {}", rank["gpu"].get<int>());
        if (rank.contains("by")) out.result(" by process {}", rank["by"].get<int>());
        if (rank.contains("bytes")) out.result(", {}", format_size(rank["bytes"].get<std::uint64_t>()));
        if (rank.contains("iteration")) out.result(", iteration {}", rank["iteration"].get<std::int64_t>());
        out.result("\n");
    }
}

void list(Output& out) {
    Json keepers = Json::array();
    for (const std::string& name : keeper_names())
        if (const auto state = state_of(name)) keepers.push_back(*state);
    if (out.json()) return out.object("tpx.hold-list/1", {{"keepers", keepers}});
    for (const Json& keeper : keepers) print_state(keeper, out);
    if (keepers.empty()) out.result("nothing is held\n");
}

void release(const std::string& name, Output& out) {
    constexpr std::chrono::seconds patience{10};
    KeeperClient{name}.request({{"op", "release"}}, patience);
    if (out.json()) return out.object("tpx.hold-release/1", {{"name", name}, {"released", true}});
    out.result("released {}{}\n", held_prefix, name);
}

}  // namespace

void run_hold(const HoldOptions& options, Output& out) {
    if (options.list) return list(out);
    if (!options.release.empty()) return release(options.release, out);
    hold(options, out);
}

}  // namespace tpx::cli
