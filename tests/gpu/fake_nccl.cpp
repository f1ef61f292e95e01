// SPDX-License-Identifier: Apache-2.0
// The part of NCCL that tpx calls, between processes of one machine: a communicator that does not block, whose first
// answers are that it is in progress. FAKE_FAULT=ncclAllReduce makes that call fail on the last rank.
#include "tests/gpu/shared.hpp"

#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

constexpr int most = 16;

struct Board {
    std::atomic<int> arrived[2];
    std::atomic<int> round;
    std::atomic<int> mail[most][most];  // whether a message from one to another is there
    std::atomic<bool> failed;           // on some rank: no other waits for it
    std::uint64_t values[most];
};

}  // namespace

struct ncclComm {
    Board* board;
    int rank, count, pending;
};

namespace {

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

}  // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    const std::string name = "/tpx-fake-nccl-" + std::to_string(getpid());
    std::strcpy(id->internal, name.c_str());
    Board* board = static_cast<Board*>(map_shared(name, sizeof(Board), true));
    if (!board) return ncclSystemError;
    std::memset(static_cast<void*>(board), 0, sizeof(Board));
    return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int count, ncclUniqueId id, int rank, ncclConfig_t* config) {
    if (config->blocking != 0 || rank >= count || count > most) return ncclInvalidArgument;
    Board* board = static_cast<Board*>(map_shared(id.internal, sizeof(Board), false));
    if (!board) return ncclSystemError;
    *comm = new ncclComm{board, rank, count, 3};
    if (!meet(*comm)) return ncclRemoteError;
    if (rank == 0) shm_unlink(id.internal);
    return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
    *state = comm->pending > 0 ? ncclInProgress : ncclSuccess;
    if (comm->pending > 0) --comm->pending;
    return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    comm->pending = 2;
    return meet(comm) ? ncclInProgress : ncclRemoteError;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    delete comm;
    return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) { return ncclCommDestroy(comm); }
const char* ncclGetErrorString(ncclResult_t code) { return code == ncclRemoteError ? "a peer is gone" : "fake fault"; }
ncclResult_t ncclGroupStart() { return ncclSuccess; }
ncclResult_t ncclGroupEnd() { return ncclInProgress; }
ncclResult_t ncclSend(const void*, std::size_t, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t) {
    ++comm->board->mail[comm->rank][peer];
    comm->pending = 1;
    return ncclInProgress;
}
ncclResult_t ncclRecv(void*, std::size_t, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t) {
    std::atomic<int>& mail = comm->board->mail[peer][comm->rank];
    if (!await(*comm->board, [&] { return mail != 0; })) return ncclRemoteError;
    --mail;
    comm->pending = 1;
    return ncclInProgress;
}
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t comm, cudaStream_t) {
    const char* fault = std::getenv("FAKE_FAULT");
    if (fault && std::strcmp(fault, "ncclAllReduce") == 0 && comm->rank == comm->count - 1) {
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
