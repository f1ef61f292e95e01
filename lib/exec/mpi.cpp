// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/mpi.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace tpx::mpi {
namespace {

// Far below the largest count of MPI 3, which is an int.
constexpr std::size_t largest_message = std::size_t{1} << 24;

template <class Value>
void combine(const Comm& comm, std::span<Value> values, MPI_Datatype type, MPI_Op operation) {
    if (comm.size() == 1) return;
    while (!values.empty()) {
        const std::size_t count = std::min(values.size(), largest_message);
        check(MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(count), type, operation, comm.get()),
              "MPI_Allreduce");
        values = values.subspan(count);
    }
}

}  // namespace

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

void check(int code, const char* call) {
    if (code == MPI_SUCCESS) return;
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    MPI_Error_string(code, text.data(), &length);
    throw failure("{}: {}", call, std::string_view{text.data(), static_cast<std::size_t>(length)});
}

void barrier(const Comm& comm) {
    if (comm.size() > 1) check(MPI_Barrier(comm.get()), "MPI_Barrier");
}

void all_xor(const Comm& comm, std::span<std::uint64_t> values) { combine(comm, values, MPI_UINT64_T, MPI_BXOR); }
void all_sum(const Comm& comm, std::span<std::uint64_t> values) { combine(comm, values, MPI_UINT64_T, MPI_SUM); }
void all_min(const Comm& comm, std::span<std::uint64_t> values) { combine(comm, values, MPI_UINT64_T, MPI_MIN); }
void all_max(const Comm& comm, std::span<std::uint64_t> values) { combine(comm, values, MPI_UINT64_T, MPI_MAX); }

void broadcast(const Comm& comm, std::string& bytes, int root) {
    if (comm.size() == 1) return;
    std::uint64_t size = bytes.size();
    check(MPI_Bcast(&size, 1, MPI_UINT64_T, root, comm.get()), "MPI_Bcast");
    bytes.resize(size);
    for (std::size_t done = 0; done < size; done += largest_message) {
        const auto count = static_cast<int>(std::min(size - done, largest_message));
        check(MPI_Bcast(bytes.data() + done, count, MPI_BYTE, root, comm.get()), "MPI_Bcast");
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
    std::string message = comm.rank() == culprit ? mine->what() : "";
    std::string exit = comm.rank() == culprit ? std::to_string(static_cast<int>(mine->exit())) : "";
    broadcast(comm, message, culprit);
    broadcast(comm, exit, culprit);
    Error error{static_cast<Exit>(std::stoi(exit)), "{}", message};
    if (all_failed == 0) error.prepend(fmt::format("rank {}", culprit));
    throw AgreedError{error};
}

}  // namespace tpx::mpi
