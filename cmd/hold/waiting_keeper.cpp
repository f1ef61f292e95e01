// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/waiting_keeper.hpp"

#include "cmd/hold/keeper.hpp"
#include "cmd/hold/pipe.hpp"
#include "lib/core/error.hpp"
#include "lib/exec/local_socket.hpp"
#include "lib/exec/open_files.hpp"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>

// Messages to the process: "socket PATH", "part" and "config", each with its files; "gpu NUMBER PCI-ADDRESS" for each
// part, "auto" if host memory may replace the GPUs, and "save NAME"; then "hold" and "serve". The process answers
// "hold" with "ready REASON", where REASON says why the state is in host memory instead, and "serve" with "serving".
// Any other answer is an error message.
namespace tpx::cli {
namespace {

const std::string ready = "ready ";

/// The content of the messages that the process has received.
struct Given {
    std::optional<NewSocket> socket;
    HeldFiles held;
    HoldPlace place;
};

void take_gpu(HoldPlace& place, const std::string& value) {
    const int gpu = std::stoi(value);
    place.gpus.push_back(gpu);
    place.rooms.resize(std::max(place.rooms.size(), static_cast<std::size_t>(gpu) + 1));
    place.rooms[static_cast<std::size_t>(gpu)].bus = value.substr(value.find(' ') + 1);
}

void take(Given& given, LocalMessage& message) {
    const std::size_t blank = std::min(message.text.find(' '), message.text.size());
    const std::string what = message.text.substr(0, blank);
    const std::string value = message.text.substr(std::min(blank + 1, message.text.size()));
    if (what == "socket") given.socket.emplace(value, std::move(message.files.at(0)));
    if (what == "part")
        given.held.parts.push_back(make_part(std::move(message.files.at(0)), std::move(message.files.at(1))));
    if (what == "gpu") take_gpu(given.place, value);
    if (what == "auto") given.place.is_auto = true;
    if (what == "config") given.held.config = std::move(message.files.at(0));
    if (what == "save") given.held.save = value;
}

/// Moves the state to its place, and returns the answer to "hold".
std::string answer_to_hold(Given& given, const std::string& problem) {
    if (!problem.empty()) return problem;
    try {
        bring_to(given.held.parts, given.place, nullptr);
        return ready + given.place.reason;
    } catch (const std::exception& error) {
        return error.what();
    }
}

/// Receives messages until "serve". Returns false if the connection is closed before.
bool await_service(const Fd& connection, Given& given) {
    std::string problem;
    while (auto message = receive_message(connection)) {
        if (message->text == "serve") return true;
        if (message->text == "hold") {
            send_message(connection, answer_to_hold(given, problem));
            continue;
        }
        try {
            take(given, *message);
        } catch (const std::exception& error) {
            problem = error.what();
        }
    }
    return false;
}

}  // namespace

WaitingKeeper::WaitingKeeper(const KeeperSettings& terms) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
        throw failure("socketpair: {}", std::strerror(errno));
    connection_ = Fd{ends[0]};
    Fd other{ends[1]};
    process_ = ::fork();
    if (process_ < 0) throw failure("cannot start a keeper: {}", std::strerror(errno));
    if (process_ != 0) return;
    connection_ = std::move(other);
    wait_and_keep(terms);
}

WaitingKeeper::~WaitingKeeper() {
    if (serving_ == 0) end();
}

void WaitingKeeper::wait_and_keep(const KeeperSettings& terms) const {
    become_background();
    ::signal(SIGPIPE, SIG_IGN);
    for (const int file : files_but({connection_.get()})) ::close(file);
    allowed_open_files(1);  // raises the limit
    Given given;
    try {
        if (!await_service(connection_, given) || !given.socket) {
            given.socket.reset();  // removes the socket
            std::_Exit(int(Exit::success));
        }
        send_message(connection_, "serving");
    } catch (const std::exception&) {  // the process that started this one is gone
        given.socket.reset();
        std::_Exit(int(Exit::failure));
    }
    keep(terms, *given.socket, std::move(given.held), {connection_.get()});
}

/// Receives an answer of the process that must begin with `answer`, and returns the rest of it. Throws Error with any
/// other answer.
std::string WaitingKeeper::expect(const std::string& answer) const {
    const auto message = receive_message(connection_);
    if (!message) throw failure("the keeper ended before it served the state");
    if (!message->text.starts_with(answer)) throw failure("{}", message->text);
    return message->text.substr(answer.size());
}

void WaitingKeeper::reserve(const std::string& name) {
    NewSocket socket{name};
    socket_ = socket.path();
    send_message(connection_, "socket " + socket_.string(), std::array{socket.number()});
    socket.take();  // the process removes it
}

std::string WaitingKeeper::give(const HeldFiles& held, const HoldPlace& place) {
    const auto send = [&](const std::string& text, std::initializer_list<int> files) {
        send_message(connection_, text, std::span{files.begin(), files.size()});
    };
    for (const HeldPart& part : held.parts) send("part", {part.document.get(), part.segment.get()});
    for (const int gpu : place.gpus)
        send(fmt::format("gpu {} {}", gpu, place.rooms[static_cast<std::size_t>(gpu)].bus), {});
    if (place.is_auto) send("auto", {});
    if (held.config) send("config", {held.config.get()});
    send("save " + held.save, {});
    send("hold", {});
    return expect(ready);
}

int WaitingKeeper::serve() {
    send_message(connection_, "serve");
    expect("serving");
    serving_ = std::exchange(process_, 0);
    return serving_;
}

void WaitingKeeper::end() {
    connection_ = Fd{};
    if (serving_ != 0) end_keeper(std::exchange(serving_, 0), socket_);
    if (process_ != 0) wait_for_exit(std::exchange(process_, 0));
}

}  // namespace tpx::cli
