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

}  // namespace tpx::cuda
