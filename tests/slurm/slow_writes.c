/* SPDX-License-Identifier: Apache-2.0
 * Preloaded: writes of tensors take SLOW_WRITES_MS milliseconds longer, so that there is time to stop a small run. When
 * the first one begins, SLOW_WRITES_MARK is created. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { smallest = 65536 };

/* The system call itself, so that no other function has to be found before MPI or Slurm's libraries are complete. */
static ssize_t slow(int fd, const void* from, size_t size, off_t at) {
    const char* wanted = getenv("SLOW_WRITES_MS");
    if (wanted != NULL && size >= smallest) {
        const long milliseconds = atol(wanted);
        const struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};
        const char* mark = getenv("SLOW_WRITES_MARK");
        if (mark != NULL) syscall(SYS_close, (int)syscall(SYS_openat, AT_FDCWD, mark, O_CREAT | O_WRONLY, 0600));
        nanosleep(&pause, NULL);
    }
    return syscall(SYS_pwrite64, fd, from, size, at);
}

ssize_t pwrite(int fd, const void* from, size_t size, off_t at) { return slow(fd, from, size, at); }
ssize_t pwrite64(int fd, const void* from, size_t size, off_t at) { return slow(fd, from, size, at); }
