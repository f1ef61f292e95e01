// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/mpi.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <system_error>
#include <thread>

namespace tpx::mpi {
namespace {

// Far below the largest count of MPI 3, which is an int.
constexpr std::size_t largest_message = std::size_t{1} << 24;

std::function<void(bool)>& hook() {
    static thread_local std::function<void(bool)> look;  // per thread: it calls MPI, which other threads must not do
    return look;
}

void combine(const Comm& comm, std::span<std::uint64_t> values, tpx_mpi_operation operation) {
    if (comm.size() == 1) return;
    while (!values.empty()) {
        const std::size_t count = std::min(values.size(), largest_message);
        tpx_mpi_request request = 0;
        check(
            functions().start_combine(nullptr, values.data(), static_cast<int>(count), operation, comm.get(), &request),
            "MPI_Iallreduce");
        wait({request, "MPI_Iallreduce"});
        values = values.subspan(count);
    }
}

// Copies `data` from `root` to every rank.
void spread(const Comm& comm, void* data, std::size_t bytes, int root) {
    tpx_mpi_request request = 0;
    check(functions().start_broadcast(data, static_cast<int>(bytes), root, comm.get(), &request), "MPI_Ibcast");
    wait({request, "MPI_Ibcast"});
}

// Calls `body` with consecutive parts of `bytes`, none of which is larger than a message may be.
template <class Byte>
void for_each_message(std::span<Byte> bytes, const auto& body) {
    while (!bytes.empty()) {
        const std::span<Byte> part = bytes.first(std::min(bytes.size(), largest_message));
        body(part);
        bytes = bytes.subspan(part.size());
    }
}

}  // namespace

WaitHook::WaitHook(std::function<void(bool)> look) { hook() = std::move(look); }

WaitHook::~WaitHook() { hook() = nullptr; }

void call_hook(bool working) {
    if (hook()) hook()(working);
}

void run_watched(const std::function<void()>& body) {
    if (!hook()) return body();
    std::packaged_task<void()> task{body};
    std::future<void> done = task.get_future();
    std::jthread thread;
    try {
        thread = std::jthread{[&] { task(); }};
    } catch (const std::system_error&) {  // there are too many threads
        return body();
    }
    while (done.wait_for(std::chrono::milliseconds{1}) != std::future_status::ready) call_hook(true);
    done.get();
}

Comm::Comm(tpx_mpi_comm raw) : handle_{raw} { check(functions().rank_and_size(raw, &rank_, &size_), "MPI_Comm_size"); }

Comm Comm::world() {
    tpx_mpi_comm raw = 0;
    check(functions().duplicate_world(&raw), "MPI_Comm_dup");
    return Comm{raw};
}

Comm Comm::split(const Comm& other, int group) {
    if (other.size() == 1) return {};
    tpx_mpi_comm raw = 0;
    check(functions().split(other.get(), group, other.rank(), &raw), "MPI_Comm_split");
    return Comm{raw};
}

bool Request::test() {
    if (is_empty()) return true;
    int done = 0;
    check(functions().test(&raw_, &done), call_);
    return done != 0;
}

void Request::wait_busy() {
    if (!is_empty()) check(functions().wait(&raw_), call_);
}

void Request::release() noexcept {
    if (!is_empty()) functions().release_request(&raw_);
}

Request start_send(const Comm& comm, int rank, Tag tag, std::span<const std::byte> bytes) {
    tpx_mpi_request request = 0;
    check(functions().start_send(bytes.data(), static_cast<int>(bytes.size()), rank, static_cast<int>(tag), comm.get(),
                                 &request),
          "MPI_Isend");
    return {request, "MPI_Isend"};
}

Request start_receive(const Comm& comm, int rank, Tag tag, std::span<std::byte> into) {
    tpx_mpi_request request = 0;
    check(functions().start_receive(into.data(), static_cast<int>(into.size()), rank, static_cast<int>(tag), comm.get(),
                                    &request),
          "MPI_Irecv");
    return {request, "MPI_Irecv"};
}

Request start_sum(const Comm& comm, std::span<const std::uint64_t> values, std::span<std::uint64_t> sums) {
    tpx_mpi_request request = 0;
    check(functions().start_combine(values.data(), sums.data(), static_cast<int>(values.size()), TPX_MPI_SUM,
                                    comm.get(), &request),
          "MPI_Iallreduce");
    return {request, "MPI_Iallreduce"};
}

Request start_barrier(const Comm& comm) {
    tpx_mpi_request request = 0;
    check(functions().start_barrier(comm.get(), &request), "MPI_Ibarrier");
    return {request, "MPI_Ibarrier"};
}

std::optional<int> find_message(const Comm& comm, Tag tag) {
    int from = -1;
    check(functions().probe(static_cast<int>(tag), comm.get(), &from), "MPI_Iprobe");
    return from < 0 ? std::nullopt : std::optional{from};
}

void send_busy(const Comm& comm, int rank, Tag tag, std::span<const std::byte> bytes) {
    check(functions().send(bytes.data(), static_cast<int>(bytes.size()), rank, static_cast<int>(tag), comm.get()),
          "MPI_Send");
}

void receive_busy(const Comm& comm, int rank, Tag tag, std::span<std::byte> into) {
    check(functions().receive(into.data(), static_cast<int>(into.size()), rank, static_cast<int>(tag), comm.get()),
          "MPI_Recv");
}

// A blocking MPI call would keep a core busy for as long as another rank is stopped.
void wait(Request request) {
    using namespace std::chrono_literals;
    constexpr int tests_before_sleep = 1000;
    constexpr auto longest_sleep = 1000us;
    auto sleep = 10us;
    for (int tests = 0;; ++tests) {
        if (request.test()) return;
        if (tests < tests_before_sleep) continue;
        call_hook(false);
        std::this_thread::sleep_for(sleep);
        sleep = std::min(2 * sleep, longest_sleep);
    }
}

void send(const Comm& comm, int rank, Tag tag, std::span<const std::byte> bytes) {
    wait(start_send(comm, rank, tag, bytes));
}

void receive(const Comm& comm, int rank, Tag tag, std::span<std::byte> into) {
    wait(start_receive(comm, rank, tag, into));
}

void barrier(const Comm& comm) {
    if (comm.size() > 1) wait(start_barrier(comm));
}

void all_xor(const Comm& comm, std::span<std::uint64_t> values) { combine(comm, values, TPX_MPI_XOR); }
void all_sum(const Comm& comm, std::span<std::uint64_t> values) { combine(comm, values, TPX_MPI_SUM); }
void all_min(const Comm& comm, std::span<std::uint64_t> values) { combine(comm, values, TPX_MPI_MIN); }
void all_max(const Comm& comm, std::span<std::uint64_t> values) { combine(comm, values, TPX_MPI_MAX); }

void broadcast(const Comm& comm, std::string& bytes, int root) {
    if (comm.size() == 1) return;
    std::uint64_t size = bytes.size();
    spread(comm, &size, sizeof size, root);
    bytes.resize(size);
    for (std::size_t done = 0; done < size; done += largest_message) {
        spread(comm, bytes.data() + done, std::min(size - done, largest_message), root);
    }
}

void send_in_parts(const Comm& comm, int rank, Tag tag, std::span<const std::byte> bytes) {
    for_each_message(bytes, [&](auto part) { send(comm, rank, tag, part); });
}

void receive_in_parts(const Comm& comm, int rank, Tag tag, std::span<std::byte> into) {
    for_each_message(into, [&](auto part) { receive(comm, rank, tag, part); });
}

// Rank 0 receives from the other ranks in the order of their numbers.
std::vector<std::string> gather(const Comm& comm, const std::string& bytes) {
    std::uint64_t size = bytes.size();
    if (comm.rank() != 0) {
        send(comm, 0, Tag::gather, std::as_bytes(std::span{&size, 1}));
        send_in_parts(comm, 0, Tag::gather, std::as_bytes(std::span{bytes}));
        return {};
    }
    std::vector<std::string> all{bytes};
    for (int rank = 1; rank < comm.size(); ++rank) {
        receive(comm, rank, Tag::gather, std::as_writable_bytes(std::span{&size, 1}));
        std::string& theirs = all.emplace_back(size, '\0');
        receive_in_parts(comm, rank, Tag::gather, std::as_writable_bytes(std::span{theirs}));
    }
    return all;
}

std::vector<std::string> all_gather(const Comm& comm, const std::string& bytes) {
    std::vector<std::string> all(static_cast<std::size_t>(comm.size()));
    all[static_cast<std::size_t>(comm.rank())] = bytes;
    for (int rank = 0; rank < comm.size(); ++rank) broadcast(comm, all[static_cast<std::size_t>(rank)], rank);
    return all;
}

void agree(const Comm& comm, const Error* mine) {
    if (comm.size() == 1) {
        if (mine != nullptr) throw AgreedError{*mine};
        return;
    }
    const auto healthy = static_cast<std::uint64_t>(comm.size());
    std::array<std::uint64_t, 2> lowest = {mine != nullptr ? comm.rank() : healthy, mine != nullptr ? 1U : 0U};
    all_min(comm, lowest);
    const auto [first, all_failed] = lowest;
    if (first == healthy) return;
    const int culprit = static_cast<int>(first);
    const bool is_mine = mine != nullptr && comm.rank() == culprit;
    std::string message = is_mine ? mine->what() : "";
    std::string exit = is_mine ? std::to_string(static_cast<int>(mine->exit())) : "";
    broadcast(comm, message, culprit);
    broadcast(comm, exit, culprit);
    Error error{static_cast<Exit>(std::stoi(exit)), "{}", message};
    if (all_failed == 0) error.prepend(fmt::format("rank {}", culprit));
    throw AgreedError{error};
}

void agree_on(const Comm& comm, const std::exception_ptr& error) {
    try {
        if (error) std::rethrow_exception(error);
    } catch (const Error& known) {
        const Error mine{known};
        return agree(comm, &mine);
    } catch (const std::exception& other) {
        const Error mine = unexpected(other);
        return agree(comm, &mine);
    }
    agree(comm, nullptr);
}

}  // namespace tpx::mpi
