// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/keeper_start.hpp"

#include "cmd/hold/keeper.hpp"
#include "cmd/hold/pipe.hpp"
#include "cmd/jobs/keeper_client.hpp"
#include "cmd/output/output.hpp"
#include "lib/core/error.hpp"
#include "lib/core/path.hpp"
#include "lib/exec/local_socket.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

namespace tpx::cli {
namespace {

/// The open files that a keeper needs.
std::set<int> files_of(const NewSocket& socket, const HeldFiles& held) {
    std::set<int> files{socket.number()};
    if (held.config) files.insert(held.config.get());
    for (const HeldPart& part : held.parts) files.insert({part.document.get(), part.segment.get()});
    return files;
}

/// Closes files that the keeper must not keep open.
void close_all(const std::vector<int>& files) {
    for (const int number : files) ::close(number);
}

/// Moves the state to `place` and keeps it in this process. Then sends `starter` "+", or "+" and the reason if the
/// state is in host memory instead, "-" and the cause of a DirectFailure, or the cause of another failure. Closes other
/// files only after the copy: while the connection to the source's keeper is open, that keeper holds the memory.
[[noreturn]] void keep_in_place(const KeeperSettings& terms, NewSocket& socket, HeldFiles held, HoldPlace place,
                                const DirectMoves* direct, Fd starter) {
    ::signal(SIGPIPE, SIG_IGN);
    std::set<int> kept = files_of(socket, held);
    kept.insert(starter.get());
    const std::vector<int> unneeded = files_but(kept);  // before CUDA opens its own
    std::string said;
    try {
        const bool was_on_gpu = !place.gpus.empty();
        bring_to(held.parts, place, direct);
        said = "+" + (was_on_gpu ? place.reason : "");
    } catch (const DirectFailure& error) {
        said = fmt::format("-{}", error.what());
    } catch (const std::exception& error) {
        said = error.what();
    }
    close_all(unneeded);
    const bool heard = ::write(starter.get(), said.data(), said.size()) == static_cast<ssize_t>(said.size());
    if (!said.starts_with('+') || !heard) {
        if (!heard) socket.file().remove();
        std::_Exit(int(Exit::failure));
    }
    starter = Fd{};  // it waits for the end of what is said
    keep(terms, socket, std::move(held));
}

/// Waits until a keeper has its state in place. Returns why it is in host memory instead, if it is. Throws Error with
/// the keeper's reason if it fails.
std::string await_keeper(const Fd& keeper) {
    const std::string said = read_all(keeper);
    if (said.empty()) throw failure("the keeper ended before it had the state");
    if (said.starts_with('-')) throw DirectFailure{failure("{}", said.substr(1))};
    if (!said.starts_with('+')) throw failure("{}", said);
    return said.substr(1);
}

}  // namespace

std::vector<int> files_but(const std::set<int>& kept) {
    std::vector<int> files;
    for (const std::string& name : list_directory("/proc/self/fd")) {
        const int number = std::atoi(name.c_str());
        const bool is_open = ::fcntl(number, F_GETFD) != -1;  // unlike the listed folder itself
        if (number > 2 && is_open && !kept.contains(number)) files.push_back(number);
    }
    return files;
}

void become_background() {
    ::setsid();
    if (::chdir("/") != 0) std::_Exit(int(Exit::failure));
    const int nothing = ::open("/dev/null", O_RDWR);
    for (int number = 0; number <= 2; ++number) ::dup2(nothing, number);
}

void bring_to(std::vector<HeldPart>& parts, HoldPlace& place, const DirectMoves* direct) {
    const std::string reason = move_to_gpus(parts, place, direct);
    if (!reason.empty()) place = {.gpus = {}, .gpu_infos = {}, .is_auto = true, .reason = reason};
}

NewSocket::NewSocket(const std::string& name) {
    const std::filesystem::path path = keeper_socket(name);
    auto listener = listen_at(path);
    if (!listener) throw name_taken_error(name);
    file_ = SocketFile{path};
    listener_ = std::move(*listener);
}

NewSocket::~NewSocket() {
    if (listener_) file_.remove();
}

int start_in_background(const KeeperSettings& terms, NewSocket& socket, HeldFiles held, HoldPlace& place,
                        const DirectMoves* direct) {
    Pipe pipe = make_pipe();
    const pid_t process = ::fork();
    if (process < 0) throw failure("cannot start a keeper: {}", std::strerror(errno));
    if (process == 0) {
        pipe.from = Fd{};
        become_background();
        keep_in_place(terms, socket, std::move(held), place, direct, std::move(pipe.into));
    }
    pipe.into = Fd{};
    try {
        const std::string reason = await_keeper(pipe.from);
        if (!reason.empty()) place = {.gpus = {}, .gpu_infos = {}, .is_auto = true, .reason = reason};
    } catch (const DirectFailure&) {
        wait_for_exit(process);
        throw;
    } catch (const Error&) {
        end_keeper(process, socket.file());
        throw;
    }
    return process;
}

void end_keeper(int process, const SocketFile& socket) {
    // It may not have got as far as removing its socket.
    ::kill(process, SIGTERM);
    wait_for_exit(process);
    socket.remove();
}

std::vector<int> prepare_to_keep(const NewSocket& socket, HeldFiles& held, HoldPlace& place,
                                 const DirectMoves* direct) {
    static std::set<int> of_cuda;  // files that it opened in an attempt that failed
    std::set<int> kept = files_of(socket, held);
    kept.insert(of_cuda.begin(), of_cuda.end());
    std::vector<int> unneeded = files_but(kept);  // before CUDA opens its own
    try {
        bring_to(held.parts, place, direct);
    } catch (const DirectFailure&) {
        kept.insert(unneeded.begin(), unneeded.end());
        for (const int number : files_but(kept)) of_cuda.insert(number);
        throw;
    }
    return unneeded;
}

void keep(const KeeperSettings& terms, NewSocket& socket, HeldFiles held, const std::vector<int>& unneeded) {
    close_all(unneeded);  // also connections to other keepers, which wait for their readers
    std::optional<Keeper::Clock::time_point> deadline;
    if (terms.timeout) deadline = Keeper::Clock::now() + std::chrono::seconds{*terms.timeout};
    Exit exit = Exit::success;
    try {
        Keeper keeper{terms.name, socket.file(), socket.take(), deadline};
        if (!terms.is_empty) keeper.hold(std::move(held.parts), std::move(held.config), std::move(held.save));
        keeper.run();
    } catch (const std::exception& error) {
        // A process in the background has no standard error.
        fmt::print(stderr, "tpx: {}{}: {}\n", held_prefix, terms.name, printable(error.what()));
        exit = Exit::failure;
    }
    std::fflush(stderr);
    std::_Exit(int(exit));
}

}  // namespace tpx::cli
