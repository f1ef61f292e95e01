// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/hold_output.hpp"

#include "cmd/hold/hold.hpp"
#include "cmd/hold/hold_seconds.hpp"
#include "cmd/hold/hold_state.hpp"
#include "cmd/hold/pipe.hpp"
#include "cmd/jobs/keeper_client.hpp"
#include "cmd/jobs/open_checkpoint.hpp"
#include "cmd/output/output.hpp"
#include "lib/core/host_name.hpp"
#include "lib/exec/local_socket.hpp"
#include "lib/exec/publish.hpp"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

namespace tpx::cli {
namespace {

/// Whether an environment variable marks a process as a rank of this job. The keeper must not inherit these.
bool is_of_launcher(std::string_view variable) {
    constexpr std::array beginnings{"OMPI_", "PMIX_", "PMI_", "SLURM_PROCID="};
    return std::ranges::any_of(beginnings, [&](const char* start) { return variable.starts_with(start); });
}

/// The ranks on this process's host, ascending.
struct Hosts {
    std::vector<int> own_ranks;

    bool is_one(const mpi::Comm& comm) const { return own_ranks.size() == static_cast<std::size_t>(comm.size()); }
};

/// Collective.
Hosts hosts_of(const mpi::Comm& comm) {
    const std::vector<std::string> names = mpi::all_gather(comm, host_name());
    Hosts hosts;
    for (int rank = 0; rank < comm.size(); ++rank)
        if (names[static_cast<std::size_t>(rank)] == host_name()) hosts.own_ranks.push_back(rank);
    return hosts;
}

/// The output of `child` until it closes its end of the pipe. After a signal of `signals`, which may be null, sends
/// SIGTERM to `child` once.
std::string output_of(pid_t child, const Fd& from, const StopSignals* signals) {
    // Milliseconds: if a launcher signals `child` as well, both count as one signal.
    constexpr int interval = 20;
    std::array<char, 4096> buffer{};
    std::string said;
    for (bool stops = false;;) {
        if (!stops && signals != nullptr && signals->signal() != 0) stops = ::kill(child, SIGTERM) == 0;
        struct pollfd ready {
            from.get(), POLLIN, 0
        };
        if (::poll(&ready, 1, interval) <= 0) continue;
        const ssize_t got = ::read(from.get(), buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return said;
        said.append(buffer.data(), static_cast<std::size_t>(got));
    }
}

/// Runs this program with `words` outside of this job. Returns the status of waitpid(2), and in `said` its standard
/// output.
int run_tpx(const std::vector<std::string>& words, const StopSignals* signals, std::string& said) {
    std::vector<char*> arguments, environment;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    for (char** variable = environ; *variable != nullptr; ++variable)
        if (!is_of_launcher(*variable)) environment.push_back(*variable);
    environment.push_back(nullptr);
    Pipe pipe = make_pipe();
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, pipe.into.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t child = 0;
    const int code = ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr, arguments.data(), environment.data());
    ::posix_spawn_file_actions_destroy(&actions);
    if (code != 0) throw failure("tpx hold: {}", std::strerror(code));
    pipe.into = Fd{};
    said = output_of(child, pipe.from, signals);
    return wait_for_exit(child);
}

}  // namespace

std::string hold_name_of(const std::string& path) {
    std::string name = std::filesystem::path{without_slashes(path)}.filename().string();
    in_context([] { return "without --hold-name NAME"; }, [&] { keeper_socket(name); });
    return name;
}

std::string held_output_name(const ReshardOptions& options) {
    return options.hold_name.empty() ? hold_name_of(options.output) : options.hold_name;
}

void check_hold(const std::string& name, const std::string& seconds) {
    hold_seconds(seconds, "--hold");
    Fd other;
    if (connect_to(keeper_socket(name), other) == ConnectResult::connected) throw name_taken_error(name);
}

namespace {

/// Runs `tpx hold` with `words`. Throws Error if it fails.
void run_hold_command(std::vector<std::string> words, const ReadOptions& reading, const StopSignals* signals) {
    words.insert(words.begin(), {"tpx", "hold"});
    const auto add = [&](const char* option, const std::string& value) { words.insert(words.end(), {option, value}); };
    for (const std::string& file : reading.rules) add("--rules", file);
    for (const std::string& setting : reading.settings) add("--set", setting);
    if (!reading.config.empty()) add("--config", reading.config);
    words.insert(words.end(), {"--json", "--quiet"});
    std::string said;
    const int status = run_tpx(words, signals, said);
    if (status == 0) return;
    const auto json = nlohmann::json::parse(said, nullptr, false);
    if (json.is_object() && json.contains("error") && json["error"].contains("message"))
        throw failure("{}", json["error"]["message"].get<std::string>());
    if (WIFSIGNALED(status))
        throw failure("tpx hold was killed by signal {} ({}); is there enough memory?", WTERMSIG(status),
                      ::strsignal(WTERMSIG(status)));
    throw failure("tpx hold failed with exit status {}", WEXITSTATUS(status));
}

/// The words of `tpx hold` for some ranks; without `ranks`, for all.
std::vector<std::string> hold_words(const HeldOutput& output) {
    std::vector<std::string> words{output.path, "--name", output.name, "--to", output.layout};
    if (!output.ranks.empty()) words.insert(words.end(), {"--ranks", fmt::format("{}", fmt::join(output.ranks, ","))});
    if (!output.device.empty()) words.insert(words.end(), {"--device", output.device});
    if (!output.rank_gpus.empty() && (output.device == "cuda" || output.device == "auto"))
        words.insert(words.end(), {"--rank-gpus", fmt::format("{}", fmt::join(output.rank_gpus, ","))});
    return words;
}

}  // namespace

void start_hold(const HeldOutput& output, const ReadOptions& reading, const StopSignals& signals) {
    std::vector<std::string> words = hold_words(output);
    words.insert(words.end(), {"--timeout", output.seconds});
    run_hold_command(std::move(words), reading, &signals);
}

namespace {

/// Throws Error if the held state would not fit into this host's memory. Ignores other errors, which the run itself
/// reports.
void check_hold_fits(const ReshardOptions& options, const Layout& layout, const std::vector<int>& ranks) {
    HoldOptions hold;
    static_cast<ReadOptions&>(hold) = options;
    hold.checkpoint = options.checkpoint;
    hold.to = to_string(layout);
    hold.dtype = options.dtype;
    hold.drop = options.drop;
    hold.masters = options.masters;
    if (!ranks.empty()) hold.ranks = fmt::format("{}", fmt::join(ranks, ","));
    std::optional<HoldJob> job;
    try {
        job = prepare_hold(hold);
    } catch (const Error&) {
        return;
    }
    check_fits(*job, options.checkpoint);
    if (options.hold_device != "cuda") return;  // auto: the host has room
    // In a process of its own: this one may start others, which then could not use CUDA.
    std::vector<std::string> words = hold_words({options.checkpoint,
                                                 held_output_name(options),
                                                 options.hold,
                                                 options.hold_device,
                                                 to_string(layout),
                                                 ranks,
                                                 {}});
    words.emplace_back("--dry-run");
    if (!options.dtype.empty()) words.insert(words.end(), {"--dtype", options.dtype});
    if (!options.drop.empty()) words.insert(words.end(), {"--drop", options.drop});
    if (options.masters) words.emplace_back("--masters");
    run_hold_command(std::move(words), options, nullptr);
}

}  // namespace

void check_hold(const mpi::Comm& comm, const ReshardOptions& options, const Layout& layout) {
    const Hosts hosts = hosts_of(comm);
    mpi::all_or_none(comm, [&] {
        check_hold(held_output_name(options), options.hold);
        if (!hosts.is_one(comm) && layout.ranks() != comm.size())
            throw usage_error("--hold: on several hosts, start one process per rank of {} (expected {}, found {})",
                              to_string(layout), layout.ranks(), comm.size());
        if (hosts.own_ranks.front() == comm.rank())
            check_hold_fits(options, layout, hosts.is_one(comm) ? std::vector<int>{} : hosts.own_ranks);
    });
}

void hold_output(const mpi::Comm& comm, const ReshardOptions& options, const Layout& layout, const StopSignals& signals,
                 const Output& out) {
    try {
        const Hosts hosts = hosts_of(comm);
        HeldOutput held{options.output, "", options.hold, options.hold_device, to_string(layout), {}, {}};
        if (!hosts.is_one(comm)) held.ranks = hosts.own_ranks;
        mpi::all_or_none(comm, [&] {
            held.name = held_output_name(options);
            if (hosts.own_ranks.front() == comm.rank()) start_hold(held, options, signals);
        });
    } catch (const mpi::AgreedError& error) {
        throw mpi::AgreedError{
            Error{exit_after_commit, "{}; {} is complete and in place", error.what(), options.output}};
    }
    out.note("{} is also held in memory, as {}{}", options.output, held_prefix, held_output_name(options));
}

}  // namespace tpx::cli
