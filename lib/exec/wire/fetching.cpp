// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/wire/fetching.hpp"

#include "lib/core/error.hpp"
#include "lib/core/file.hpp"

#include <fcntl.h>

#include <array>
#include <chrono>
#include <thread>
#include <vector>

namespace tpx {
namespace {

using Header = std::array<std::uint64_t, 3>;  // file, offset, bytes; no bytes: the desk closes

// What a message may carry; far below the largest count of MPI 3.
constexpr std::uint64_t largest = std::uint64_t{16} << 20;

}  // namespace

void serve_reads(const mpi::Comm& comm, const PathOfFile& path) {
    std::vector<std::byte> bytes;
    for (;;) {
        Header header{};
        mpi::receive(comm, 0, mpi::Tag::request, std::as_writable_bytes(std::span{header}));
        if (header[2] == 0) break;
        const std::filesystem::path file = path(header[0]);
        bytes.resize(header[2]);
        read_at(open_file(file, O_RDONLY), header[1], bytes, file);
        mpi::send(comm, 0, mpi::Tag::reply, bytes);
    }
    mpi::agree(comm, nullptr);
}

void FetchDesk::fetch(int server, std::size_t file, std::uint64_t offset, std::span<std::byte> into) {
    while (!into.empty()) {
        Wish wish{server, file, offset, into.first(std::min<std::uint64_t>(into.size(), largest))};
        std::unique_lock lock{mutex_};
        wishes_.push_back(&wish);
        changed_.notify_all();
        changed_.wait(lock, [&] { return wish.done; });
        if (wish.error) std::rethrow_exception(wish.error);
        offset += wish.into.size();
        into = into.subspan(wish.into.size());
    }
}

void FetchDesk::answer(Wish& wish) const {
    if (wish.server == comm_.rank()) {
        const std::filesystem::path file = path_(wish.file);
        return read_at(open_file(file, O_RDONLY), wish.offset, wish.into, file);
    }
    const Header header{wish.file, wish.offset, wish.into.size()};
    mpi::send(comm_, wish.server, mpi::Tag::request, std::as_bytes(std::span{header}));
    mpi::receive(comm_, wish.server, mpi::Tag::reply, wish.into);
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
            answer(wish);
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
