// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold_output.hpp"

#include "cmd/keeper_client.hpp"
#include "cmd/output.hpp"
#include "cmd/positive.hpp"
#include "cmd/reading.hpp"
#include "lib/core/host_name.hpp"
#include "lib/exec/local_socket.hpp"
#include "lib/exec/publish.hpp"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace tpx::cli {
namespace {

std::string name_of(const ReshardOptions& options) {
    return options.hold_name.empty() ? hold_name_of(options.output) : options.hold_name;
}

/// Whether a variable tells a process that it is a rank of this job, which the keeper is not.
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

/// Runs this program with `words` outside of this job. Returns the status of waitpid(2), and in `said` its standard
/// output.
int run_tpx(const std::vector<std::string>& words, std::string& said) {
    std::vector<char*> arguments, environment;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    for (char** variable = environ; *variable != nullptr; ++variable)
        if (!is_of_launcher(*variable)) environment.push_back(*variable);
    environment.push_back(nullptr);
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw failure("pipe: {}", std::strerror(errno));
    const Fd from{ends[0]};
    Fd into{ends[1]};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, into.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t child = 0;
    const int code = ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr, arguments.data(), environment.data());
    ::posix_spawn_file_actions_destroy(&actions);
    if (code != 0) throw failure("tpx hold: {}", std::strerror(code));
    into = Fd{};
    std::array<char, 4096> buffer{};
    for (ssize_t got = 0; (got = ::read(from.get(), buffer.data(), buffer.size())) > 0 || (got < 0 && errno == EINTR);)
        if (got > 0) said.append(buffer.data(), static_cast<std::size_t>(got));
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

}  // namespace

std::string hold_name_of(const std::string& path) {
    std::string name = std::filesystem::path{without_slashes(path)}.filename().string();
    in_context([] { return "without --hold-name NAME"; }, [&] { keeper_socket(name); });
    return name;
}

void check_hold(const std::string& name, const std::string& seconds) {
    if (seconds != "none") positive(seconds, "--hold", 0);
    Fd other;
    if (connect_to(keeper_socket(name), other) == Contact::connected) throw name_is_taken(name);
}

void start_hold(const HeldOutput& output, const ReadOptions& reading) {
    std::vector<std::string> words{"tpx",       "hold",         output.path, "--name", output.name,
                                   "--timeout", output.seconds, "--json",    "--quiet"};
    const auto add = [&](const char* option, const std::string& value) { words.insert(words.end(), {option, value}); };
    add("--to", output.layout);
    for (const std::string& file : reading.rules) add("--rules", file);
    for (const std::string& setting : reading.settings) add("--set", setting);
    if (!reading.config.empty()) add("--config", reading.config);
    if (!output.ranks.empty()) add("--ranks", fmt::format("{}", fmt::join(output.ranks, ",")));
    std::string said;
    const int status = run_tpx(words, said);
    if (status == 0) return;
    const auto json = nlohmann::json::parse(said, nullptr, false);
    if (json.is_object() && json.contains("error") && json["error"].contains("message"))
        throw failure("{}", json["error"]["message"].get<std::string>());
    if (WIFSIGNALED(status))
        throw failure("tpx hold was killed by signal {} ({}); is there enough memory?", WTERMSIG(status),
                      ::strsignal(WTERMSIG(status)));
    throw failure("tpx hold failed with exit status {}", WEXITSTATUS(status));
}

void check_hold(const mpi::Comm& comm, const ReshardOptions& options, const Layout& layout) {
    const Hosts hosts = hosts_of(comm);
    mpi::all_or_none(comm, [&] {
        check_hold(name_of(options), options.hold);
        if (!hosts.is_one(comm) && layout.ranks() != comm.size())
            throw usage_error("--hold: on several hosts, start one process per rank of {} (expected {}, found {})",
                              to_string(layout), layout.ranks(), comm.size());
    });
}

void hold_output(const mpi::Comm& comm, const ReshardOptions& options, const Layout& layout, const Output& out) {
    try {
        const Hosts hosts = hosts_of(comm);
        HeldOutput held{options.output, "", options.hold, to_string(layout), {}};
        if (!hosts.is_one(comm)) held.ranks = hosts.own_ranks;
        mpi::all_or_none(comm, [&] {
            held.name = name_of(options);
            if (hosts.own_ranks.front() == comm.rank()) start_hold(held, options);
        });
    } catch (const mpi::AgreedError& error) {
        throw mpi::AgreedError{
            Error{exit_after_commit, "{}; {} is complete and in place", error.what(), options.output}};
    }
    out.note("{} is also held in memory, as {}{}", options.output, held_prefix, name_of(options));
}

}  // namespace tpx::cli
