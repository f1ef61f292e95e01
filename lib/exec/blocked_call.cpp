// SPDX-License-Identifier: Apache-2.0
#include "lib/exec/blocked_call.hpp"

#include "lib/core/path.hpp"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace tpx {
namespace {

namespace fs = std::filesystem;

struct FileCall {
    long number;
    std::string_view name;
    int path;  // index of the argument that is a path; -1: the first argument is a descriptor
};

constexpr std::array calls{
    FileCall{SYS_read, "read", -1},           FileCall{SYS_pread64, "pread", -1},
    FileCall{SYS_write, "write", -1},         FileCall{SYS_pwrite64, "pwrite", -1},
    FileCall{SYS_fsync, "fsync", -1},         FileCall{SYS_fdatasync, "fdatasync", -1},
    FileCall{SYS_ftruncate, "ftruncate", -1}, FileCall{SYS_getdents64, "readdir", -1},
    FileCall{SYS_close, "close", -1},         FileCall{SYS_fstat, "fstat", -1},
    FileCall{SYS_openat, "open", 1},          FileCall{SYS_newfstatat, "stat", 1},
    FileCall{SYS_statx, "stat", 1},           FileCall{SYS_mkdirat, "mkdir", 1},
    FileCall{SYS_unlinkat, "unlink", 1},      FileCall{SYS_renameat2, "rename", 1},
#ifdef SYS_mkdir  // calls that newer architectures do not have
    FileCall{SYS_mkdir, "mkdir", 0},          FileCall{SYS_rename, "rename", 0},
    FileCall{SYS_unlink, "unlink", 0},        FileCall{SYS_open, "open", 0},
#endif
};

// The text at an address that another thread passed to a call. The call may have returned and the memory may be gone;
// process_vm_readv() then fails instead of causing a segmentation fault.
std::string path_at(std::uint64_t address) {
    std::array<char, 4096> text{};
    // Reads only up to the end of the page, because the next page may not be readable.
    const std::size_t first = text.size() - address % text.size();
    iovec into{text.data(), first}, from{reinterpret_cast<void*>(address), first};
    if (::process_vm_readv(::getpid(), &into, 1, &from, 1, 0) <= 0) return {};
    text.back() = 0;
    return text.data();
}

// "/proc/self/task/N/syscall" contains the number of the call and its arguments, or "running".
std::string call_of(const std::string& task) {
    std::ifstream file{fmt::format("/proc/self/task/{}/syscall", task)};
    long number = -1;
    std::array<std::string, 2> words;
    if (!(file >> number >> words[0] >> words[1])) return {};
    for (const FileCall& call : calls) {
        if (call.number != number) continue;
        if (call.path >= 0)
            if (const std::string path = path_at(std::stoull(words[call.path == 1 ? 1 : 0], nullptr, 16));
                !path.empty())
                return fmt::format("{} {}", call.name, path);
        std::error_code error;
        const fs::path target =
            fs::read_symlink(fmt::format("/proc/self/fd/{}", std::stoull(words[0], nullptr, 16)), error);
        return error || !target.is_absolute() ? std::string{} : fmt::format("{} {}", call.name, target.string());
    }
    return {};
}

}  // namespace

std::string blocked_call() {
    const std::string own = std::to_string(::gettid());
    for (const std::string& task : list_directory("/proc/self/task")) {
        if (task == own) continue;
        if (std::string call = call_of(task); !call.empty()) return call;
    }
    return {};
}

}  // namespace tpx
