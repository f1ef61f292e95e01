// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/wire/fetching.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <thread>
#include <vector>

namespace tpx {
namespace {

// What a request is.
enum class Asking : std::uint64_t { end, bytes, question };

// Asking, file, offset, size: of the bytes that are asked for, or of the question, which follows.
using Header = std::array<std::uint64_t, 4>;

// What a message may carry; far below the largest count of MPI 3.
constexpr std::uint64_t largest = std::uint64_t{16} << 20;

template <class Bytes, class Pass>
void in_parts(Bytes bytes, const Pass& pass) {
    for (; !bytes.empty(); bytes = bytes.subspan(std::min<std::uint64_t>(bytes.size(), largest)))
        pass(bytes.first(std::min<std::uint64_t>(bytes.size(), largest)));
}

void send_text(const mpi::Comm& comm, int rank, mpi::Tag tag, const std::string& text) {
    in_parts(std::as_bytes(std::span{text}), [&](auto part) { mpi::send(comm, rank, tag, part); });
}

std::string receive_text(const mpi::Comm& comm, int rank, mpi::Tag tag, std::uint64_t size) {
    std::string text(size, '\0');
    in_parts(std::as_writable_bytes(std::span{text}), [&](auto part) { mpi::receive(comm, rank, tag, part); });
    return text;
}

}  // namespace

void serve_reads(const mpi::Comm& comm, const PathOfFile& path, const AnswerAboutFile& answer) {
    std::vector<std::byte> bytes;
    for (;;) {
        Header header{};
        mpi::receive(comm, 0, mpi::Tag::request, std::as_writable_bytes(std::span{header}));
        const auto& [asking, number, offset, size] = header;
        if (static_cast<Asking>(asking) == Asking::end) break;
        const std::filesystem::path file = path(number);
        if (static_cast<Asking>(asking) == Asking::bytes) {
            bytes.resize(size);
            read_at(open_file(file, O_RDONLY), offset, bytes, file);
            mpi::send(comm, 0, mpi::Tag::reply, bytes);
            continue;
        }
        const std::string reply = answer(file, receive_text(comm, 0, mpi::Tag::request, size));
        const std::uint64_t length = reply.size();
        mpi::send(comm, 0, mpi::Tag::reply, std::as_bytes(std::span{&length, 1}));
        send_text(comm, 0, mpi::Tag::reply, reply);
    }
    mpi::agree(comm, nullptr);
}

// Has the desk's thread call `fulfil`, and waits for that.
void FetchDesk::wish(std::function<void()> fulfil) {
    Wish wish{std::move(fulfil)};
    std::unique_lock lock{mutex_};
    wishes_.push_back(&wish);
    changed_.notify_all();
    changed_.wait(lock, [&] { return wish.done; });
    if (wish.error) std::rethrow_exception(wish.error);
}

void FetchDesk::fetch(int server, std::size_t file, std::uint64_t offset, std::span<std::byte> into) {
    in_parts(into, [&](std::span<std::byte> part) {
        wish([&] { fetch_part(server, file, offset, part); });
        offset += part.size();
    });
}

void FetchDesk::fetch_part(int server, std::size_t number, std::uint64_t offset, std::span<std::byte> into) const {
    if (server == comm_.rank()) {
        const std::filesystem::path file = path_(number);
        return read_at(open_file(file, O_RDONLY), offset, into, file);
    }
    const Header header{static_cast<std::uint64_t>(Asking::bytes), number, offset, into.size()};
    mpi::send(comm_, server, mpi::Tag::request, std::as_bytes(std::span{header}));
    mpi::receive(comm_, server, mpi::Tag::reply, into);
}

void FetchDesk::ask(std::span<RemoteQuestion> questions) {
    std::map<int, std::vector<RemoteQuestion*>> by_server;
    for (RemoteQuestion& question : questions) by_server[question.server].push_back(&question);
    std::size_t most = 0;
    for (const auto& [server, own] : by_server) most = std::max(most, own.size());
    for (std::size_t k = 0; k < most; ++k) {
        std::vector<RemoteQuestion*> turn;
        for (const auto& [server, own] : by_server)
            if (k < own.size()) turn.push_back(own[k]);
        wish([&] { ask_one_each(turn); });
    }
}

// Asks servers that differ. A server with two questions at once would wait for this rank to receive its first answer,
// and this rank for it to receive the second question.
void FetchDesk::ask_one_each(std::span<RemoteQuestion* const> questions) const {
    for (const RemoteQuestion* question : questions) {
        if (question->server == comm_.rank()) continue;
        const Header header{static_cast<std::uint64_t>(Asking::question), question->file, 0, question->text.size()};
        mpi::send(comm_, question->server, mpi::Tag::request, std::as_bytes(std::span{header}));
        send_text(comm_, question->server, mpi::Tag::request, question->text);
    }
    for (RemoteQuestion* question : questions)
        if (question->server == comm_.rank()) question->answer = answer_(path_(question->file), question->text);
    for (RemoteQuestion* question : questions) {
        if (question->server == comm_.rank()) continue;
        std::uint64_t length = 0;
        mpi::receive(comm_, question->server, mpi::Tag::reply, std::as_writable_bytes(std::span{&length, 1}));
        question->answer = receive_text(comm_, question->server, mpi::Tag::reply, length);
    }
}

void FetchDesk::answer_until(const bool& ended) {
    using namespace std::chrono_literals;
    std::unique_lock lock{mutex_};
    while (!ended || !wishes_.empty()) {
        if (wishes_.empty()) {
            changed_.wait_for(lock, 1ms);
            lock.unlock();
            mpi::call_hook(true);
            lock.lock();
            continue;
        }
        Wish& wish = *wishes_.front();
        wishes_.pop_front();
        lock.unlock();
        try {
            wish.fulfil();
        } catch (...) {
            wish.error = std::current_exception();
        }
        lock.lock();
        wish.done = true;
        changed_.notify_all();
    }
}

void FetchDesk::run(const std::function<void()>& body) {
    std::exception_ptr error;
    bool ended = false;
    {
        const std::jthread thread{[&] {
            try {
                body();
            } catch (...) {
                error = std::current_exception();
            }
            const std::lock_guard lock{mutex_};
            ended = true;
            changed_.notify_all();
        }};
        answer_until(ended);
    }
    const Header end{};
    for (int rank = 1; rank < comm_.size(); ++rank)
        mpi::send(comm_, rank, mpi::Tag::request, std::as_bytes(std::span{end}));
    mpi::agree_on(comm_, error);
}

}  // namespace tpx
