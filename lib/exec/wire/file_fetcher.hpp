// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/exec/mpi.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

namespace tpx {

/// The path at which a rank that has file number `file` reads it.
using PathOfFile = std::function<std::filesystem::path(std::size_t file)>;

/// The answer to `question`, a FileQuestion's text, about the file at `path`.
using AnswerFileQuestion = std::function<std::string(const std::filesystem::path& path, std::string_view question)>;

/// Sends rank 0 the bytes and the answers that it requests from this rank, until rank 0 closes its FileFetcher. An
/// error in a read ends the job; one in an answer is thrown on rank 0.
void serve_reads(const mpi::Comm& comm, const PathOfFile& path, const AnswerFileQuestion& answer);

/// A question to a rank about a file that it has.
struct RemoteQuestion {
    int server = 0;
    std::uint64_t file = 0;
    std::string text;
    std::string answer = {};
};

/// Lets threads of rank 0 request parts of files from other ranks, or ask them questions about files. Only the thread
/// that runs the fetcher calls MPI.
class FileFetcher {
public:
    FileFetcher(const mpi::Comm& comm, PathOfFile path, AnswerFileQuestion answer)
        : comm_{comm}, path_{std::move(path)}, answer_{std::move(answer)} {}

    /// Fills `into` with what file number `file` contains at `offset` on rank `server`. For any thread but the
    /// fetcher's.
    void fetch(int server, std::size_t file, std::uint64_t offset, std::span<std::byte> into);

    /// Sets the answers of `questions`. Servers work at the same time, each on one question at a time. For any thread
    /// but the fetcher's.
    void ask(std::span<RemoteQuestion> questions);

    /// Runs `body` on another thread and executes its requests; then closes, and throws an mpi::AgreedError on all
    /// ranks if `body` failed. The other ranks must be in serve_reads().
    void run(const std::function<void()>& body);

private:
    struct Task {
        std::function<void()> work;
        bool done = false;
        std::exception_ptr error = {};
    };

    void run_on_fetcher_thread(std::function<void()> work);
    void fetch_part(int server, std::size_t file, std::uint64_t offset, std::span<std::byte> into) const;
    void ask_one_each(std::span<RemoteQuestion* const> questions) const;
    void answer_until(const bool& ended);

    const mpi::Comm& comm_;
    PathOfFile path_;
    AnswerFileQuestion answer_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Task*> tasks_;
};

}  // namespace tpx
