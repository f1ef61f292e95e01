/* SPDX-License-Identifier: Apache-2.0
 * Preloaded: a file system without direct I/O. REFUSE_DIRECT=open refuses to open files with O_DIRECT, as most of them do;
 * REFUSE_DIRECT=write refuses direct writes only. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static int refuses(const char* what) {
    const char* chosen = getenv("REFUSE_DIRECT");
    return chosen != NULL && strcmp(chosen, what) == 0;
}

static int open_file(const char* path, int flags, mode_t mode) {
    if ((flags & O_DIRECT) == 0 || !refuses("open")) return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    errno = EINVAL;
    return -1;
}

#define OPEN(name)                                     \
    int name(const char* path, int flags, ...) {       \
        va_list rest;                                  \
        va_start(rest, flags);                         \
        const mode_t mode = va_arg(rest, mode_t);      \
        va_end(rest);                                  \
        return open_file(path, flags, mode);           \
    }
OPEN(open)
OPEN(open64)

static ssize_t write_at(int fd, const void* from, size_t size, off_t at) {
    if ((fcntl(fd, F_GETFL) & O_DIRECT) == 0 || !refuses("write")) return syscall(SYS_pwrite64, fd, from, size, at);
    errno = EINVAL;
    return -1;
}

ssize_t pwrite(int fd, const void* from, size_t size, off_t at) { return write_at(fd, from, size, at); }
ssize_t pwrite64(int fd, const void* from, size_t size, off_t at) { return write_at(fd, from, size, at); }
