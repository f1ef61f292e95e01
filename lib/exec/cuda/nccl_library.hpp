// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

namespace tpx::cuda {

/// The functions of libnccl.so.2 that are used. It is loaded when it is needed: it has 200 MB, and need not be there.
struct NcclLibrary {
    decltype(&ncclGetUniqueId) get_unique_id;
    decltype(&ncclCommInitRankConfig) init;
    decltype(&ncclCommGetAsyncError) async_error;
    decltype(&ncclCommFinalize) finalize;
    decltype(&ncclCommDestroy) destroy;
    decltype(&ncclCommAbort) abort;
    decltype(&ncclGetErrorString) error_string;
    decltype(&ncclGroupStart) group_start;
    decltype(&ncclGroupEnd) group_end;
    decltype(&ncclSend) send;
    decltype(&ncclRecv) receive;
    decltype(&ncclAllReduce) all_reduce;
};

/// The one of this process. Throws Error when it cannot be loaded.
const NcclLibrary& nccl();

/// Throws Error unless the call has succeeded or is in progress.
void accept_nccl(ncclResult_t code, const char* call);

/// A group of calls to NCCL, which start together when it ends.
class NcclGroup {
public:
    NcclGroup() { accept_nccl(nccl().group_start(), "ncclGroupStart"); }
    ~NcclGroup() {
        if (!has_ended_) nccl().group_end();  // another error is being thrown
    }
    NcclGroup(const NcclGroup&) = delete;
    NcclGroup& operator=(const NcclGroup&) = delete;

    void end() {
        has_ended_ = true;
        accept_nccl(nccl().group_end(), "ncclGroupEnd");
    }

private:
    bool has_ended_ = false;
};

/// Aborts a communicator instead of destroying it, because ncclCommDestroy may wait for peers. After success, nothing
/// is in progress.
struct AbortNccl {
    void operator()(ncclComm_t comm) const { nccl().abort(comm); }
};

}  // namespace tpx::cuda
