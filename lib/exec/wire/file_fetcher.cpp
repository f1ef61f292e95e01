// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/wire/file_fetcher.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <thread>
#include <vector>

namespace tpx {
namespace {

// What rank 0 requests.
enum class RequestKind : std::uint64_t { end, bytes, question };

// RequestKind, file, offset and size of the requested bytes; or, for a question, the size of its text, which follows.
using Header = std::array<std::uint64_t, 4>;

// The most bytes of a file in one reply.
constexpr std::uint64_t largest_reply = std::uint64_t{16} << 20;

std::string receive_text(const mpi::Comm& comm, int rank, mpi::Tag tag, std::uint64_t size) {
    std::string text(size, '\0');
    mpi::receive_in_parts(comm, rank, tag, std::as_writable_bytes(std::span{text}));
    return text;
}

// The Exit of an Error whose text follows, or 0 if the answer follows; and the number of bytes that follow.
using AnswerHeader = std::array<std::uint64_t, 2>;

// Sends the result of `answer`, or its error. While `answer` runs, this rank still shows that it is alive.
void send_answer(const mpi::Comm& comm, const std::function<std::string()>& answer) {
    std::string text;
    Exit exit = Exit::success;
    try {
        mpi::run_watched([&] { text = answer(); });
    } catch (const Error& error) {
        exit = error.exit();
        text = error.what();
    } catch (const std::exception& error) {
        exit = Exit::failure;
        text = error.what();
    }
    const AnswerHeader header{static_cast<std::uint64_t>(exit), text.size()};
    mpi::send(comm, 0, mpi::Tag::reply, std::as_bytes(std::span{header}));
    mpi::send_in_parts(comm, 0, mpi::Tag::reply, std::as_bytes(std::span{text}));
}

std::string receive_answer(const mpi::Comm& comm, int rank, std::exception_ptr& error) {
    AnswerHeader header{};
    mpi::receive(comm, rank, mpi::Tag::reply, std::as_writable_bytes(std::span{header}));
    std::string text = receive_text(comm, rank, mpi::Tag::reply, header[1]);
    const auto exit = static_cast<Exit>(header[0]);
    if (exit != Exit::success && !error) error = std::make_exception_ptr(Error{exit, "{}", text});
    return text;
}

}  // namespace

void serve_reads(const mpi::Comm& comm, const PathOfFile& path, const AnswerFileQuestion& answer) {
    std::vector<std::byte> bytes;
    for (;;) {
        Header header{};
        mpi::receive(comm, 0, mpi::Tag::request, std::as_writable_bytes(std::span{header}));
        const auto& [kind, number, offset, size] = header;
        if (static_cast<RequestKind>(kind) == RequestKind::end) break;
        const std::filesystem::path file = path(number);
        if (static_cast<RequestKind>(kind) == RequestKind::bytes) {
            bytes.resize(size);
            read_at(open_file(file, O_RDONLY), offset, bytes, file);
            mpi::send(comm, 0, mpi::Tag::reply, bytes);
            continue;
        }
        send_answer(comm,
                    [&, question = receive_text(comm, 0, mpi::Tag::request, size)] { return answer(file, question); });
    }
    mpi::agree(comm, nullptr);
}

// Runs `work` on the fetcher's thread and waits until it is done.
void FileFetcher::run_on_fetcher_thread(std::function<void()> work) {
    Task task{std::move(work)};
    std::unique_lock lock{mutex_};
    tasks_.push_back(&task);
    changed_.notify_all();
    changed_.wait(lock, [&] { return task.done; });
    if (task.error) std::rethrow_exception(task.error);
}

void FileFetcher::fetch(int server, std::size_t file, std::uint64_t offset, std::span<std::byte> into) {
    while (!into.empty()) {
        const auto part = into.first(std::min<std::uint64_t>(into.size(), largest_reply));
        run_on_fetcher_thread([&] { fetch_part(server, file, offset, part); });
        offset += part.size();
        into = into.subspan(part.size());
    }
}

void FileFetcher::fetch_part(int server, std::size_t number, std::uint64_t offset, std::span<std::byte> into) const {
    if (server == comm_.rank()) {
        const std::filesystem::path file = path_(number);
        return read_at(open_file(file, O_RDONLY), offset, into, file);
    }
    const Header header{static_cast<std::uint64_t>(RequestKind::bytes), number, offset, into.size()};
    mpi::send(comm_, server, mpi::Tag::request, std::as_bytes(std::span{header}));
    mpi::receive(comm_, server, mpi::Tag::reply, into);
}

void FileFetcher::ask(std::span<RemoteQuestion> questions) {
    std::map<int, std::vector<RemoteQuestion*>> by_server;
    for (RemoteQuestion& question : questions) by_server[question.server].push_back(&question);
    std::size_t most = 0;
    for (const auto& [server, own] : by_server) most = std::max(most, own.size());
    for (std::size_t k = 0; k < most; ++k) {
        std::vector<RemoteQuestion*> batch;
        for (const auto& [server, own] : by_server)
            if (k < own.size()) batch.push_back(own[k]);
        run_on_fetcher_thread([&] { ask_one_each(batch); });
    }
}

// Each question must go to a different server. A server with two questions at once would wait for this rank to receive
// the first answer, while this rank would wait for the server to receive the second question.
void FileFetcher::ask_one_each(std::span<RemoteQuestion* const> questions) const {
    for (const RemoteQuestion* question : questions) {
        if (question->server == comm_.rank()) continue;
        const Header header{static_cast<std::uint64_t>(RequestKind::question), question->file, 0,
                            question->text.size()};
        mpi::send(comm_, question->server, mpi::Tag::request, std::as_bytes(std::span{header}));
        mpi::send_in_parts(comm_, question->server, mpi::Tag::request, std::as_bytes(std::span{question->text}));
    }
    std::exception_ptr error;  // thrown after all answers have arrived, because they must be received in any case
    for (RemoteQuestion* question : questions) {
        if (question->server != comm_.rank()) continue;
        try {
            mpi::run_watched([&] { question->answer = answer_(path_(question->file), question->text); });
        } catch (...) {
            error = std::current_exception();
        }
    }
    for (RemoteQuestion* question : questions)
        if (question->server != comm_.rank()) question->answer = receive_answer(comm_, question->server, error);
    if (error) std::rethrow_exception(error);
}

void FileFetcher::answer_until(const bool& ended) {
    using namespace std::chrono_literals;
    std::unique_lock lock{mutex_};
    while (!ended || !tasks_.empty()) {
        if (tasks_.empty()) {
            changed_.wait_for(lock, 1ms);
            lock.unlock();
            mpi::call_hook(true);
            lock.lock();
            continue;
        }
        Task& task = *tasks_.front();
        tasks_.pop_front();
        lock.unlock();
        try {
            task.work();
        } catch (...) {
            task.error = std::current_exception();
        }
        lock.lock();
        task.done = true;
        changed_.notify_all();
    }
}

void FileFetcher::run(const std::function<void()>& body) {
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
