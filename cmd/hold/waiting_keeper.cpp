// SPDX-License-Identifier: Apache-2.0
#include "cmd/hold/waiting_keeper.hpp"

#include "cmd/hold/gpu_source.hpp"
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
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <utility>

// Messages to the process: "socket PATH", with the socket; "allocate RANK SIZE PCI-ADDRESS" for each rank, if the new
// state is in GPU memory, and "allocated"; "part" and "config", each with its files, and "save NAME"; then "hold" and
// "serve". The process answers "allocated" with "memory " and the handles, "hold" with "ready", and "serve" with
// "serving". Any other answer is an error message.
namespace tpx::cli {
namespace {

/// The content of the messages that the process has received.
struct Given {
    std::optional<NewSocket> socket;
    HeldFiles held;
    std::vector<GpuAllocation> allocated;  // by part
};

/// Allocates memory of a GPU for the next part.
void allocate(Given& given, const std::string& value) {
    std::istringstream words{value};
    int rank = 0;
    std::uint64_t size = 0;
    std::string bus;
    words >> rank >> size >> bus;
    in_context([&] { return fmt::format("rank {}", rank); },
               [&] {
                   auto memory = std::make_shared<GpuMemory>(gpu_with_address(bus), size);
                   const std::string handle = hexadecimal(memory->handle());
                   given.allocated.push_back({std::move(memory), {bus, handle}});
               });
}

/// Frees the allocated memory and all other GPU memory that CUDA uses for this process: trainers need it.
void release_allocated(Given& given, std::span<const std::string> buses) {
    given.allocated.clear();
    for (const std::string& bus : buses) try {
            release_gpu(gpu_with_address(bus));
        } catch (const Error&) {  // there is nothing to free
        }
}

HeldPart next_part(Given& given, LocalMessage& message) {
    Fd &document = message.files.at(0), &segment = message.files.at(1);
    if (given.allocated.empty()) return make_part(std::move(document), std::move(segment));
    return make_exported_part(std::move(document), std::move(segment), given.allocated.at(given.held.parts.size()));
}

/// Handles a message other than a request. Throws Error if that fails.
void take(Given& given, LocalMessage& message) {
    const std::size_t blank = std::min(message.text.find(' '), message.text.size());
    const std::string what = message.text.substr(0, blank);
    const std::string value = message.text.substr(std::min(blank + 1, message.text.size()));
    if (what == "socket") given.socket.emplace(value, std::move(message.files.at(0)));
    if (what == "allocate") allocate(given, value);
    if (what == "part") given.held.parts.push_back(next_part(given, message));
    if (what == "config") given.held.config = std::move(message.files.at(0));
    if (what == "save") given.held.save = value;
}

std::string handles_of(const Given& given) {
    std::string text = "memory ";
    for (const GpuAllocation& one : given.allocated) text += one.place.second + " ";
    return text;
}

/// Receives messages until "serve". Returns false if the connection is closed before.
bool await_service(const Fd& connection, Given& given) {
    std::string problem;
    std::vector<std::string> buses;
    while (auto message = receive_message(connection)) {
        const std::string text = message->text;
        if (text == "serve") return true;
        if (text == "allocated" || text == "hold") {
            const bool is_allocated = text == "allocated";
            if (is_allocated && !problem.empty()) release_allocated(given, buses);
            send_message(connection, !problem.empty() ? problem : is_allocated ? handles_of(given) : "ready");
            problem.clear();
            continue;
        }
        if (text.starts_with("allocate ")) buses.push_back(text.substr(text.rfind(' ') + 1));
        try {
            if (problem.empty()) take(given, *message);
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
    socket_ = socket.file();
    send_message(connection_, "socket " + socket_.path().string(), std::array{socket.number()});
    socket.take();  // the process removes it
}

std::vector<GpuHandle> WaitingKeeper::allocate(const HoldPlace& place, std::span<const int> ranks,
                                               std::span<const std::uint64_t> sizes) {
    for (std::size_t k = 0; k < ranks.size(); ++k)
        send_message(connection_, fmt::format("allocate {} {} {}", ranks[k], sizes[k],
                                              place.gpu_infos[static_cast<std::size_t>(place.gpus[k])].bus));
    send_message(connection_, "allocated");
    std::vector<GpuHandle> handles;
    std::istringstream words{expect("memory ")};
    for (std::string digits; words >> digits;) handles.push_back(handle_of(digits));
    return handles;
}

void WaitingKeeper::give(const HeldFiles& held) {
    const auto send = [&](const std::string& text, std::initializer_list<int> files) {
        send_message(connection_, text, std::span{files.begin(), files.size()});
    };
    for (const HeldPart& part : held.parts) send("part", {part.document.get(), part.segment.get()});
    if (held.config) send("config", {held.config.get()});
    send("save " + held.save, {});
    send("hold", {});
    expect("ready");
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
