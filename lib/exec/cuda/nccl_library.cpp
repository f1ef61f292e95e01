// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/cuda/nccl_library.hpp"

#include "lib/core/error.hpp"

#include <dlfcn.h>

namespace tpx::cuda {
namespace {

NcclLibrary load() {
    void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);  // never closed: it has threads
    if (library == nullptr) throw failure("NCCL: {}", dlerror());
    const auto set = [&]<class Function>(Function& function, const char* name) {
        function = reinterpret_cast<Function>(dlsym(library, name));
        if (function == nullptr) throw failure("NCCL: libnccl.so.2 has no {}; version 2.14 or later is needed", name);
    };
    NcclLibrary found{};
    set(found.get_unique_id, "ncclGetUniqueId");
    set(found.init, "ncclCommInitRankConfig");
    set(found.async_error, "ncclCommGetAsyncError");
    set(found.finalize, "ncclCommFinalize");
    set(found.destroy, "ncclCommDestroy");
    set(found.abort, "ncclCommAbort");
    set(found.error_string, "ncclGetErrorString");
    set(found.group_start, "ncclGroupStart");
    set(found.group_end, "ncclGroupEnd");
    set(found.send, "ncclSend");
    set(found.receive, "ncclRecv");
    set(found.all_reduce, "ncclAllReduce");
    return found;
}

}  // namespace

const NcclLibrary& nccl() {
    static const NcclLibrary library = load();
    return library;
}

void accept_nccl(ncclResult_t code, const char* call) {
    if (code != ncclSuccess && code != ncclInProgress) throw failure("{}: {}", call, nccl().error_string(code));
}

}  // namespace tpx::cuda
