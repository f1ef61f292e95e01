/* SPDX-License-Identifier: Apache-2.0
 * The calls that may fail, each in front of the one of the C library. */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include "fault.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { most_directories = 64 };

static struct {
    DIR* _Atomic stream;
    char* _Atomic path;
} directories[most_directories];

#define REAL(type, name, ...)                                      \
    static type (*real)(__VA_ARGS__);                              \
    if (real == NULL) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

#define MODE(flags)                                 \
    mode_t mode = 0;                                \
    if (((flags) & (O_CREAT | O_TMPFILE)) != 0) {   \
        va_list rest;                               \
        va_start(rest, flags);                      \
        mode = va_arg(rest, mode_t);                \
        va_end(rest);                               \
    }

static int refuse_at(const char* category, int at, const char* path) {
    char buffer[most_path];
    const char* full = below_at(at, path, buffer);
    return full != NULL && refuse(category, full);
}

#define OPEN(name)                                                     \
    int name(const char* path, int flags, ...) {                       \
        REAL(int, name, const char*, int, ...);                        \
        MODE(flags)                                                    \
        char buffer[most_path];                                        \
        const char* full = below_at(AT_FDCWD, path, buffer);           \
        if (full == NULL) return real(path, flags, mode);              \
        if (refuse("open", full)) return -1;                           \
        const int fd = real(path, flags, mode);                        \
        remember(fd, full);                                            \
        return fd;                                                     \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                   \
    int name(int at, const char* path, int flags, ...) {               \
        REAL(int, name, int, const char*, int, ...);                   \
        MODE(flags)                                                    \
        char buffer[most_path];                                        \
        const char* full = below_at(at, path, buffer);                 \
        if (full == NULL) return real(at, path, flags, mode);          \
        if (refuse("open", full)) return -1;                           \
        const int fd = real(at, path, flags, mode);                    \
        remember(fd, full);                                            \
        return fd;                                                     \
    }
OPENAT(openat)
OPENAT(openat64)

#define STAT(name, buffer)                                             \
    int name(const char* path, struct buffer* into) {                  \
        REAL(int, name, const char*, struct buffer*);                  \
        return refuse_at("stat", AT_FDCWD, path) ? -1 : real(path, into); \
    }
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)
STAT(statvfs, statvfs)
STAT(statvfs64, statvfs64)

#define FSTAT(name, buffer)                                            \
    int name(int fd, struct buffer* into) {                            \
        REAL(int, name, int, struct buffer*);                          \
        const char* path = path_of(fd);                                \
        return path != NULL && refuse("stat", path) ? -1 : real(fd, into); \
    }
FSTAT(fstat, stat)
FSTAT(fstat64, stat64)

#define FSTATAT(name, buffer)                                          \
    int name(int at, const char* path, struct buffer* into, int flags) { \
        REAL(int, name, int, const char*, struct buffer*, int);        \
        return refuse_at("stat", at, path) ? -1 : real(at, path, into, flags); \
    }
FSTATAT(fstatat, stat)
FSTATAT(fstatat64, stat64)

int statx(int at, const char* path, int flags, unsigned mask, struct statx* into) {
    REAL(int, statx, int, const char*, int, unsigned, struct statx*);
    return refuse_at("stat", at, path) ? -1 : real(at, path, flags, mask, into);
}

static DIR* opened(DIR* stream, const char* path) {
    for (int k = 0; stream != NULL && k < most_directories; ++k) {
        DIR* none = NULL;
        if (!atomic_compare_exchange_strong(&directories[k].stream, &none, stream)) continue;
        directories[k].path = strdup(path);
        break;
    }
    return stream;
}

DIR* opendir(const char* path) {
    REAL(DIR*, opendir, const char*);
    char buffer[most_path];
    const char* full = below_at(AT_FDCWD, path, buffer);
    if (full == NULL) return real(path);
    if (refuse("opendir", full)) return NULL;
    DIR* stream = real(path);
    if (stream != NULL) remember(dirfd(stream), full);
    return opened(stream, full);
}

DIR* fdopendir(int fd) {
    REAL(DIR*, fdopendir, int);
    const char* path = path_of(fd);
    if (path == NULL) return real(fd);
    return refuse("opendir", path) ? NULL : opened(real(fd), path);
}

int closedir(DIR* stream) {
    REAL(int, closedir, DIR*);
    for (int k = 0; k < most_directories; ++k) {
        if (directories[k].stream != stream) continue;
        free(atomic_exchange(&directories[k].path, NULL));
        directories[k].stream = NULL;
        break;
    }
    const int fd = dirfd(stream);
    const int fail = path_of(fd) != NULL && refuse("close", path_of(fd));
    forget(fd);
    const int result = real(stream);
    if (!fail) return result;
    errno = fault_error();
    return -1;
}

#define READDIR(name, entry)                                           \
    struct entry* name(DIR* stream) {                                  \
        REAL(struct entry*, name, DIR*);                               \
        for (int k = 0; k < most_directories; ++k) {                   \
            if (directories[k].stream != stream) continue;             \
            if (refuse("readdir", directories[k].path)) return NULL;   \
            break;                                                     \
        }                                                              \
        return real(stream);                                           \
    }
READDIR(readdir, dirent)
READDIR(readdir64, dirent64)

ssize_t read(int fd, void* into, size_t size) {
    REAL(ssize_t, read, int, void*, size_t);
    const char* path = path_of(fd);
    const ssize_t most = path == NULL ? (ssize_t)size : shorten("read", path, size);
    return most < 0 ? -1 : real(fd, into, (size_t)most);
}

#define PREAD(name)                                                    \
    ssize_t name(int fd, void* into, size_t size, off_t offset) {      \
        REAL(ssize_t, name, int, void*, size_t, off_t);                \
        const char* path = path_of(fd);                                \
        const ssize_t most = path == NULL ? (ssize_t)size : shorten("read", path, size); \
        return most < 0 ? -1 : real(fd, into, (size_t)most, offset);   \
    }
PREAD(pread)
PREAD(pread64)

ssize_t write(int fd, const void* from, size_t size) {
    REAL(ssize_t, write, int, const void*, size_t);
    const char* path = path_of(fd);
    const ssize_t most = path == NULL ? (ssize_t)size : shorten("write", path, size);
    return most < 0 ? -1 : real(fd, from, (size_t)most);
}

#define PWRITE(name)                                                   \
    ssize_t name(int fd, const void* from, size_t size, off_t offset) { \
        REAL(ssize_t, name, int, const void*, size_t, off_t);          \
        const char* path = path_of(fd);                                \
        const ssize_t most = path == NULL ? (ssize_t)size : shorten("write", path, size); \
        return most < 0 ? -1 : real(fd, from, (size_t)most, offset);   \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

/* File systems in memory cannot share blocks; there, they are copied. */
static int copy_blocks(int fd, const struct file_clone_range* range) {
    char bytes[4096];
    for (__u64 done = 0; done < range->src_length;) {
        const __u64 left = range->src_length - done;
        const long got = syscall(SYS_pread64, (int)range->src_fd, bytes, left < sizeof bytes ? left : sizeof bytes,
                                 range->src_offset + done);
        if (got <= 0 || syscall(SYS_pwrite64, fd, bytes, got, range->dest_offset + done) != got) return -1;
        done += (__u64)got;
    }
    return 0;
}

int ioctl(int fd, unsigned long request, ...) {
    REAL(int, ioctl, int, unsigned long, void*);
    va_list rest;
    va_start(rest, request);
    void* argument = va_arg(rest, void*);
    va_end(rest);
    const char* path = path_of(fd);
    if (request != FICLONERANGE || path == NULL) return real(fd, request, argument);
    if (refuse("clone", path)) return -1;
    const int result = real(fd, request, argument);
    return result != 0 && (errno == EOPNOTSUPP || errno == ENOTTY) ? copy_blocks(fd, argument) : result;
}

int close(int fd) {
    REAL(int, close, int);
    const char* path = path_of(fd);
    const int fail = path != NULL && refuse("close", path);
    forget(fd);
    const int result = real(fd);
    if (!fail) return result;
    errno = fault_error();
    return -1;
}

#define ON_FILE(name, category, parameters, types, arguments)          \
    int name parameters {                                              \
        REAL(int, name, types);                                        \
        const char* path = path_of(fd);                                \
        return path != NULL && refuse(category, path) ? -1 : real arguments; \
    }
#define TYPES(...) __VA_ARGS__
ON_FILE(fsync, "sync", (int fd), TYPES(int), (fd))
ON_FILE(fdatasync, "sync", (int fd), TYPES(int), (fd))
ON_FILE(ftruncate, "truncate", (int fd, off_t size), TYPES(int, off_t), (fd, size))
ON_FILE(ftruncate64, "truncate", (int fd, off64_t size), TYPES(int, off64_t), (fd, size))
ON_FILE(fchmod, "chmod", (int fd, mode_t mode), TYPES(int, mode_t), (fd, mode))
ON_FILE(fchown, "chmod", (int fd, uid_t user, gid_t group), TYPES(int, uid_t, gid_t), (fd, user, group))

#define ON_PATH(name, category, parameters, types, arguments)          \
    int name parameters {                                              \
        REAL(int, name, types);                                        \
        return refuse_at(category, AT_FDCWD, path) ? -1 : real arguments; \
    }
ON_PATH(mkdir, "mkdir", (const char* path, mode_t mode), TYPES(const char*, mode_t), (path, mode))
ON_PATH(chmod, "chmod", (const char* path, mode_t mode), TYPES(const char*, mode_t), (path, mode))
ON_PATH(unlink, "unlink", (const char* path), TYPES(const char*), (path))
ON_PATH(rmdir, "unlink", (const char* path), TYPES(const char*), (path))
ON_PATH(remove, "unlink", (const char* path), TYPES(const char*), (path))
ON_PATH(rename, "rename", (const char* path, const char* to), TYPES(const char*, const char*), (path, to))
ON_PATH(link, "link", (const char* from, const char* path), TYPES(const char*, const char*), (from, path))
ON_PATH(symlink, "link", (const char* target, const char* path), TYPES(const char*, const char*), (target, path))
ON_PATH(access, "stat", (const char* path, int how), TYPES(const char*, int), (path, how))

#define ON_PATH_AT(name, category, parameters, types, arguments)       \
    int name parameters {                                              \
        REAL(int, name, types);                                        \
        return refuse_at(category, at, path) ? -1 : real arguments; \
    }
ON_PATH_AT(unlinkat, "unlink", (int at, const char* path, int flags), TYPES(int, const char*, int), (at, path, flags))
ON_PATH_AT(mkdirat, "mkdir", (int at, const char* path, mode_t mode), TYPES(int, const char*, mode_t), (at, path, mode))
ON_PATH_AT(faccessat, "stat", (int at, const char* path, int how, int flags), TYPES(int, const char*, int, int),
           (at, path, how, flags))
ON_PATH_AT(renameat, "rename", (int at, const char* path, int to_at, const char* to),
           TYPES(int, const char*, int, const char*), (at, path, to_at, to))
int renameat2(int at, const char* path, int to_at, const char* to, unsigned flags) {
    REAL(int, renameat2, int, const char*, int, const char*, unsigned);
    if (flags != 0 && renames_plainly()) {
        errno = EINVAL;
        return -1;
    }
    return refuse_at("rename", at, path) ? -1 : real(at, path, to_at, to, flags);
}

ssize_t readlink(const char* path, char* into, size_t size) {
    REAL(ssize_t, readlink, const char*, char*, size_t);
    return refuse_at("readlink", AT_FDCWD, path) ? -1 : real(path, into, size);
}

char* realpath(const char* path, char* into) {
    REAL(char*, realpath, const char*, char*);
    return refuse_at("readlink", AT_FDCWD, path) ? NULL : real(path, into);
}
