// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <map>
#include <string>

/// Memory of this machine that has a name, by which other processes map it. Null when that fails.
inline void* map_shared(const std::string& name, std::size_t size, bool create) {
    const int fd = shm_open(name.c_str(), create ? O_CREAT | O_RDWR : O_RDWR, 0600);
    if (fd < 0) return nullptr;
    if (create && ftruncate(fd, static_cast<off_t>(size)) != 0) return nullptr;
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    close(fd);
    return memory == MAP_FAILED ? nullptr : memory;
}

/// Whether the variable, a list such as "0-1,2-3", has the pair of `a` and `b`, in either order.
inline bool has_pair(const char* variable, int a, int b) {
    const char* list = std::getenv(variable);
    if (list == nullptr) return false;
    const auto has = [&](int first, int second) {
        const std::string pair = "," + std::to_string(first) + "-" + std::to_string(second) + ",";
        return ("," + std::string{list} + ",").find(pair) != std::string::npos;
    };
    return has(a, b) || has(b, a);
}

/// Whether `call` fails: if the variable FAKE_FAULT, a list such as "ncclSend,ncclCommAbort", contains it, except for
/// the first FAKE_FAULT_AFTER such calls of a process. With FAKE_FAULT_KILL, the process is killed instead.
inline bool is_faulty(const char* call) {
    const char* list = std::getenv("FAKE_FAULT");
    if (list == nullptr || ("," + std::string{list} + ",").find("," + std::string{call} + ",") == std::string::npos)
        return false;
    static std::map<std::string, int> calls;
    const char* after = std::getenv("FAKE_FAULT_AFTER");
    if (++calls[call] <= (after != nullptr ? std::atoi(after) : 0)) return false;
    if (std::getenv("FAKE_FAULT_KILL") != nullptr) kill(getpid(), SIGKILL);
    return true;
}
