// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold.hpp"

#include "cmd/hold_state.hpp"
#include "cmd/keeper.hpp"
#include "cmd/keeper_client.hpp"
#include "cmd/output.hpp"
#include "cmd/positive.hpp"
#include "cmd/ranks.hpp"
#include "cmd/reading.hpp"
#include "lib/core/counted.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"
#include "lib/core/units.hpp"
#include "lib/exec/local_socket.hpp"
#include "lib/exec/signals.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

namespace tpx::cli {
namespace {

using Json = nlohmann::ordered_json;

/// The socket of a new keeper, which is removed unless a keeper takes it over.
class NewSocket {
public:
    explicit NewSocket(const std::string& name) : path_{keeper_socket(name)} {
        auto listener = listen_at(path_);
        if (!listener) throw name_is_taken(name);
        listener_ = std::move(*listener);
    }
    ~NewSocket() {
        if (listener_) ::unlink(path_.c_str());
    }
    NewSocket(const NewSocket&) = delete;
    NewSocket& operator=(const NewSocket&) = delete;

    const std::filesystem::path& path() const { return path_; }
    int number() const { return listener_.get(); }
    Fd take() { return std::move(listener_); }

private:
    std::filesystem::path path_;
    Fd listener_;
};

std::optional<int> timeout_of(const HoldOptions& options) {
    constexpr int usual = 300;
    if (options.timeout == "none") return std::nullopt;
    return positive(options.timeout, "--timeout", usual);
}

/// What the command prints about a keeper that `process` is.
void report(const HoldOptions& options, const HoldJob* job, const HeldFiles& held, int process, Output& out) {
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
            json["seconds"] = held.seconds;
            json["notes"] = job->job.conversion.notes;
            for (const int rank : *job->job.target.held) json["ranks"].push_back(rank);
        }
        return out.object("tpx.hold/1", json);
    }
    const std::string end = timeout ? fmt::format("for {}", format_seconds(*timeout)) : "until it is released";
    if (job == nullptr)
        return out.result("{}{}: process {} waits {} for exported state\n", held_prefix, options.name, process, end);
    const std::string what = fmt::format("{} of {} ({})", counted(job->job.target.held->size(), "rank"),
                                         to_string(job->job.target.layout), format_size(job->bytes));
    if (process == 0)
        return out.result("{}: {} would be held; {} are free\n", options.checkpoint, what, format_size(job->room));
    out.result("{}{}: process {} holds {} {}, or until all ranks are taken\n", held_prefix, options.name, process, what,
               end);
}

/// Closes everything but `kept` and the standard streams, so that nobody waits for this process.
void close_others(const std::set<int>& kept) {
    for (const std::string& name : list_directory("/proc/self/fd")) {
        const int number = std::atoi(name.c_str());
        if (number > 2 && !kept.contains(number)) ::close(number);
    }
}

/// Leaves the terminal, the folder and the session of the process that started this one.
void become_background(const std::set<int>& kept) {
    ::setsid();
    if (::chdir("/") != 0) std::_Exit(int(Exit::failure));
    const int nothing = ::open("/dev/null", O_RDWR);
    for (int number = 0; number <= 2; ++number) ::dup2(nothing, number);
    close_others(kept);
}

[[noreturn]] void keep(const HoldOptions& options, NewSocket& socket, HeldFiles held) {
    std::optional<Keeper::Clock::time_point> deadline;
    if (const auto timeout = timeout_of(options)) deadline = Keeper::Clock::now() + std::chrono::seconds{*timeout};
    Exit exit = Exit::success;
    try {
        Keeper keeper{options.name, socket.path(), socket.take(), deadline};
        if (!options.empty) keeper.hold(std::move(held.parts), std::move(held.config), std::move(held.save));
        keeper.run();
    } catch (const std::exception& error) {
        // A process in the background has no standard error.
        fmt::print(stderr, "tpx: {}{}: {}\n", held_prefix, options.name, printable(error.what()));
        exit = Exit::failure;
    }
    std::fflush(stderr);
    std::_Exit(int(exit));
}

/// Ends a keeper that was just started, which may not have got as far as removing its socket.
void end_keeper(pid_t process, const std::filesystem::path& socket) {
    ::kill(process, SIGTERM);
    while (::waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
    }
    ::unlink(socket.c_str());
}

/// Leaves the state to a keeper, which is this process or one that it starts.
void start_keeper(const HoldOptions& options, NewSocket& socket, const HoldJob* job, HeldFiles held, Output& out) {
    std::set<int> kept{socket.number()};
    if (held.config) kept.insert(held.config.get());
    for (const HeldPart& part : held.parts) kept.insert({part.document.get(), part.segment.get()});
    const pid_t process = options.foreground ? ::getpid() : ::fork();
    if (process < 0) throw failure("cannot start a keeper: {}", std::strerror(errno));
    if (process == 0) {
        become_background(kept);
        keep(options, socket, std::move(held));
    }
    if (!options.foreground) socket.take();  // the keeper removes it
    try {
        report(options, job, held, process, out);
        out.finish();
    } catch (const Error&) {  // nobody would know that it is held
        if (!options.foreground) end_keeper(process, socket.path());
        throw;
    }
    if (!options.foreground) return;
    close_others(kept);  // also connections to other keepers, which wait for their readers
    keep(options, socket, std::move(held));
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
    std::optional<NewSocket> socket;
    check_alone_on_host();
    std::optional<StopSignals> signals;  // so that an end removes the socket
    if (!options.dry_run && !options.empty) signals.emplace();
    if (!options.dry_run) socket.emplace(options.name);
    if (Fd other; options.dry_run && connect_to(keeper_socket(options.name), other) == Contact::connected)
        throw name_is_taken(options.name);
    if (options.empty) return start_keeper(options, *socket, nullptr, {}, out);
    ReadRecord record;
    options.checkpoint = path_without_links(given.checkpoint);
    const HoldJob job = prepare_hold(options);
    check_fits(job, options.checkpoint);
    record.seal();
    options.checkpoint = given.checkpoint;
    for (const std::string& note : job.job.conversion.notes) out.note("{}", note);
    if (options.dry_run) return report(options, &job, {}, 0, out);
    check_not_stopped(&signals->signal());
    HeldFiles held = read_into_memory(job, options, record, *signals, out);
    check_not_stopped(&signals->signal());
    signals.reset();
    start_keeper(options, *socket, &job, std::move(held), out);
}

bool is_number(const Json& object, const char* key) { return object.contains(key) && object[key].is_number(); }

/// Whether an answer to "list" contains what print_state() prints.
bool is_state(const Json& state) {
    const auto is_rank = [](const Json& rank) {
        return rank.is_object() && is_number(rank, "rank") && rank.contains("state") && rank["state"].is_string() &&
               (!rank.contains("by") || is_number(rank, "by")) &&
               (!rank.contains("bytes") || is_number(rank, "bytes")) &&
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
