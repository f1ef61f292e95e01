// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/mpi.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <limits>
#include <system_error>
#include <thread>

namespace tpx::mpi {
namespace {

// Far below the largest count of MPI 3, which is an int.
constexpr std::size_t largest_message = std::size_t{1} << 24;

std::function<void(bool)>& hook() {
    static std::function<void(bool)> look;
    return look;
}

template <class Value>
void combine(const Comm& comm, std::span<Value> values, MPI_Datatype type, MPI_Op operation) {
    if (comm.size() == 1) return;
    while (!values.empty()) {
        const std::size_t count = std::min(values.size(), largest_message);
        MPI_Request request = MPI_REQUEST_NULL;
        check(
            MPI_Iallreduce(MPI_IN_PLACE, values.data(), static_cast<int>(count), type, operation, comm.get(), &request),
            "MPI_Iallreduce");
        wait(request, "MPI_Iallreduce");
        values = values.subspan(count);
    }
}

// What `root` has in `data`, on every rank.
void spread(const Comm& comm, void* data, int count, MPI_Datatype type, int root) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibcast(data, count, type, root, comm.get(), &request), "MPI_Ibcast");
    wait(request, "MPI_Ibcast");
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

Comm::Comm(MPI_Comm raw) : handle_{raw} {
    check(MPI_Comm_rank(raw, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(raw, &size_), "MPI_Comm_size");
}

Comm Comm::duplicate(MPI_Comm other) {
    MPI_Comm raw = MPI_COMM_NULL;
    check(MPI_Comm_dup(other, &raw), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(raw, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    return Comm{raw};
}

Comm Comm::split(const Comm& other, int group) {
    if (other.size() == 1) return {};
    MPI_Comm raw = MPI_COMM_NULL;
    check(MPI_Comm_split(other.get(), group, other.rank(), &raw), "MPI_Comm_split");
    check(MPI_Comm_set_errhandler(raw, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    return Comm{raw};
}

void check(int code, const char* call) {
    if (code == MPI_SUCCESS) return;
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    MPI_Error_string(code, text.data(), &length);
    throw failure("{}: {}", call, std::string_view{text.data(), static_cast<std::size_t>(length)});
}

// An MPI call would spin at 100 % for as long as a rank is stopped.
void wait(MPI_Request request, const char* call) {
    using namespace std::chrono_literals;
    constexpr int tests_before_sleep = 1000;
    constexpr auto longest_sleep = 1000us;
    auto sleep = 10us;
    for (int tests = 0;; ++tests) {
        int done = 0;
        check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call);
        if (done != 0) return;
        if (tests < tests_before_sleep) continue;
        call_hook(false);
        std::this_thread::sleep_for(sleep);
        sleep = std::min(2 * sleep, longest_sleep);
    }
}

void send(const Comm& comm, int rank, Tag tag, std::span<const std::byte> bytes) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, rank, static_cast<int>(tag), comm.get(),
                    &request),
          "MPI_Isend");
    wait(request, "MPI_Isend");
}

void receive(const Comm& comm, int rank, Tag tag, std::span<std::byte> into) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Irecv(into.data(), static_cast<int>(into.size()), MPI_BYTE, rank, static_cast<int>(tag), comm.get(),
                    &request),
          "MPI_Irecv");
    wait(request, "MPI_Irecv");
}

void barrier(const Comm& comm) {
    if (comm.size() == 1) return;
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(comm.get(), &request), "MPI_Ibarrier");
    wait(request, "MPI_Ibarrier");
}

void all_xor(const Comm& comm, std::span<std::uint64_t> values) { combine(comm, values, MPI_UINT64_T, MPI_BXOR); }
void all_sum(const Comm& comm, std::span<std::uint64_t> values) { combine(comm, values, MPI_UINT64_T, MPI_SUM); }
void all_min(const Comm& comm, std::span<std::uint64_t> values) { combine(comm, values, MPI_UINT64_T, MPI_MIN); }
void all_max(const Comm& comm, std::span<std::uint64_t> values) { combine(comm, values, MPI_UINT64_T, MPI_MAX); }

void broadcast(const Comm& comm, std::string& bytes, int root) {
    if (comm.size() == 1) return;
    std::uint64_t size = bytes.size();
    spread(comm, &size, 1, MPI_UINT64_T, root);
    bytes.resize(size);
    for (std::size_t done = 0; done < size; done += largest_message) {
        const auto count = static_cast<int>(std::min(size - done, largest_message));
        spread(comm, bytes.data() + done, count, MPI_BYTE, root);
    }
}

std::vector<std::string> gather(const Comm& comm, const std::string& bytes) {
    std::vector<std::string> all;
    for (int rank = 0; rank < comm.size(); ++rank) {
        std::string theirs = rank == comm.rank() ? bytes : std::string{};
        broadcast(comm, theirs, rank);
        if (comm.rank() == 0) all.push_back(std::move(theirs));
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
    const int healthy = std::numeric_limits<int>::max();
    std::array<int, 2> lowest = {mine != nullptr ? comm.rank() : healthy, mine != nullptr ? 1 : 0};
    combine(comm, std::span<int>{lowest}, MPI_INT, MPI_MIN);
    const auto [culprit, all_failed] = lowest;
    if (culprit == healthy) return;
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
