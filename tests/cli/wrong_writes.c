/* SPDX-License-Identifier: Apache-2.0
 * Preloaded: one bit of the first large write is wrong, as if a disk or its controller had damaged it. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum { smallest = 65536 };

static ssize_t damage(int fd, const void* from, size_t size, off_t at) {
    static int done = 0;
    if (size < smallest || __atomic_exchange_n(&done, 1, __ATOMIC_RELAXED))
        return syscall(SYS_pwrite64, fd, from, size, at);
    void* memory = NULL;
    if (posix_memalign(&memory, 4096, size) != 0) return -1; /* aligned, as direct writes must be */
    char* const wrong = memory;
    memcpy(wrong, from, size);
    wrong[size / 2] ^= 1;
    const ssize_t written = syscall(SYS_pwrite64, fd, wrong, size, at);
    free(wrong);
    return written;
}

ssize_t pwrite(int fd, const void* from, size_t size, off_t at) { return damage(fd, from, size, at); }
ssize_t pwrite64(int fd, const void* from, size_t size, off_t at) { return damage(fd, from, size, at); }
