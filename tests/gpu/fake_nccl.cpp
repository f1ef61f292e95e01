// SPDX-License-Identifier: Apache-2.0
// The part of NCCL that tpx calls, between processes of one machine: a communicator that does not block, whose first
// answers are that it is in progress. Messages go through shared memory, whose name is removed once all ranks have
// joined. FAKE_FAULT names calls that fail, on rank FAKE_FAULT_PLACE only if that is set: ncclAsyncError is an error
// that ncclCommGetAsyncError reports, and with ncclLost, messages are never sent. Ranks do not notice that another one
// has aborted, as on a host whose network has failed.
#include "tests/gpu/shared.hpp"

#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace fake_nccl {  // not anonymous: members of ncclComm have these types

constexpr int most = 8;
constexpr std::size_t most_bytes = std::size_t{64} << 20;  // of a message; longer ones, of measurements, are cut

/// Messages from one rank to another, one at a time.
struct Mail {
    std::atomic<std::uint64_t> sent;
    std::atomic<std::uint64_t> received;
    std::uint64_t size;
};

struct Board {
    std::atomic<int> joined;
    std::atomic<int> arrived[2];
    std::atomic<int> round;
    std::atomic<bool> failed;  // on some rank, in a reduction: no other waits for it
    std::uint64_t values[most];
    Mail mail[most][most];
};

constexpr std::size_t board_size = (sizeof(Board) + 4095) / 4096 * 4096;
constexpr std::size_t whole_size = board_size + most * most * most_bytes;

/// A message that is still to be sent or received.
struct Operation {
    bool is_send;
    const void* from;
    void* to;
    std::size_t size;
    int peer;
};

}  // namespace fake_nccl
using namespace fake_nccl;

struct ncclComm {
    Board* board;
    std::string name;
    int rank, count, pending;
    bool has_joined;
    std::vector<Operation> queued;   // in a group that has not ended
    std::vector<Operation> started;  // but not done
};

namespace {

int depth = 0;  // of groups
std::vector<ncclComm*> communicators;

bool fails(const char* call, const ncclComm* comm) {
    const char* place = std::getenv("FAKE_FAULT_PLACE");
    return (place == nullptr || comm == nullptr || std::atoi(place) == comm->rank) && is_faulty(call);
}

char* bytes_of(Board* board, int from, int to) {
    return reinterpret_cast<char*>(board) + board_size + static_cast<std::size_t>(from * most + to) * most_bytes;
}

// Whether the message has been sent or received.
bool step(ncclComm* comm, const Operation& one) {
    const int from = one.is_send ? comm->rank : one.peer, to = one.is_send ? one.peer : comm->rank;
    Mail& mail = comm->board->mail[from][to];
    const std::size_t length = std::min(one.size, most_bytes);
    if (one.is_send) {
        if (mail.sent != mail.received) return false;
        if (is_faulty("ncclLost")) return false;
        std::memcpy(bytes_of(comm->board, from, to), one.from, length);
        mail.size = one.size;
        ++mail.sent;
        return true;
    }
    if (mail.sent == mail.received) return false;
    if (mail.size != one.size) std::abort();
    std::memcpy(one.to, bytes_of(comm->board, from, to), length);
    ++mail.received;
    return true;
}

// Messages between two ranks keep their order.
void make_progress(ncclComm* comm) {
    if (!comm->has_joined && comm->board->joined == comm->count) {
        comm->has_joined = true;
        shm_unlink(comm->name.c_str());
    }
    std::vector<Operation> left;
    for (const Operation& one : comm->started) {
        const bool waits = std::any_of(left.begin(), left.end(), [&](const Operation& other) {
            return other.is_send == one.is_send && other.peer == one.peer;
        });
        if (waits || !step(comm, one)) left.push_back(one);
    }
    comm->started = left;
}

// Waits until something holds; false when a rank has failed, or when it has not for very long.
template <class Holds>
bool await(const Board& board, Holds&& holds) {
    const auto start = std::chrono::steady_clock::now();
    while (!holds()) {
        if (board.failed || std::chrono::steady_clock::now() - start > std::chrono::minutes{5}) return false;
        std::this_thread::yield();
    }
    return true;
}

// All ranks are here; false when one is not for long.
bool meet(ncclComm* comm) {
    const int round = comm->board->round;
    if (++comm->board->arrived[round % 2] == comm->count) {
        comm->board->arrived[round % 2] = 0;
        ++comm->board->round;
        return true;
    }
    return await(*comm->board, [&] { return comm->board->round != round; });
}

void start(ncclComm* comm) {
    comm->started.insert(comm->started.end(), comm->queued.begin(), comm->queued.end());
    comm->queued.clear();
}

ncclResult_t queue(ncclComm* comm, const Operation& operation, const char* call) {
    if (fails(call, comm)) return ncclSystemError;
    if (!comm->has_joined || operation.peer < 0 || operation.peer >= comm->count) return ncclInvalidArgument;
    comm->queued.push_back(operation);
    comm->pending = 1;
    if (depth == 0) start(comm);
    return ncclInProgress;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    if (is_faulty("ncclGetUniqueId")) return ncclSystemError;
    static int made = 0;
    const char* of_test = std::getenv("FAKE_NAME");
    const std::string name = std::string{"/tpx-fake-nccl-"} + (of_test != nullptr ? of_test : "") + "-" +
                             std::to_string(getpid()) + "-" + std::to_string(++made);
    std::strcpy(id->internal, name.c_str());
    return map_shared(name, whole_size, true) ? ncclSuccess : ncclSystemError;  // zeros
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int count, ncclUniqueId id, int rank, ncclConfig_t* config) {
    if (config->blocking != 0 || rank >= count || count > most) return ncclInvalidArgument;
    Board* board = static_cast<Board*>(map_shared(id.internal, whole_size, false));
    if (!board) return ncclSystemError;
    *comm = new ncclComm{board, id.internal, rank, count, 3, false, {}, {}};
    communicators.push_back(*comm);
    if (fails("ncclCommInitRankConfig", *comm)) return ncclSystemError;
    ++board->joined;
    return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
    if (fails("ncclCommGetAsyncError", comm)) return ncclInvalidArgument;
    make_progress(comm);
    const bool is_busy = comm->pending > 0 || !comm->has_joined || !comm->started.empty();
    *state = is_busy ? ncclInProgress : ncclSuccess;
    if (comm->has_joined && fails("ncclAsyncError", comm)) *state = ncclRemoteError;
    if (comm->pending > 0) --comm->pending;
    return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    if (fails("ncclCommFinalize", comm)) return ncclSystemError;
    comm->pending = 2;
    return meet(comm) ? ncclInProgress : ncclRemoteError;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    std::erase(communicators, comm);
    shm_unlink(comm->name.c_str());
    munmap(comm->board, whole_size);
    delete comm;
    return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    const bool fails_too = fails("ncclCommAbort", comm);
    ncclCommDestroy(comm);
    return fails_too ? ncclInternalError : ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t code) { return code == ncclRemoteError ? "a peer is gone" : "fake fault"; }
ncclResult_t ncclGroupStart() {
    if (is_faulty("ncclGroupStart")) return ncclSystemError;
    ++depth;
    return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
    if (depth == 0) return ncclInvalidUsage;
    --depth;
    if (is_faulty("ncclGroupEnd")) return ncclSystemError;
    if (depth == 0)
        for (ncclComm* comm : communicators) start(comm);
    return ncclInProgress;
}
ncclResult_t ncclSend(const void* from, std::size_t size, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t) {
    return queue(comm, {true, from, nullptr, size, peer}, "ncclSend");
}
ncclResult_t ncclRecv(void* to, std::size_t size, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t) {
    return queue(comm, {false, nullptr, to, size, peer}, "ncclRecv");
}
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t comm, cudaStream_t) {
    if (fails("ncclAllReduce", comm)) {
        comm->board->failed = true;
        return ncclInternalError;
    }
    if (type == ncclUint64 && count == 1) std::memcpy(&comm->board->values[comm->rank], from, sizeof(std::uint64_t));
    if (!meet(comm)) return ncclRemoteError;
    if (operation == ncclMin) {
        const std::uint64_t least = *std::min_element(comm->board->values, comm->board->values + comm->count);
        std::memcpy(to, &least, sizeof least);
    }
    comm->pending = 1;
    return meet(comm) ? ncclInProgress : ncclRemoteError;
}
}
