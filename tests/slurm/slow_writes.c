/* SPDX-License-Identifier: Apache-2.0
 * Preloaded: writes of tensors take SLOW_WRITES_MS milliseconds longer, and all reads SLOW_READS_MS, so that there is time
 * to stop a small run. When the first of them begins, SLOW_WRITES_MARK is created. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { smallest = 65536 };

static void wait_for(const char* variable) {
    const char* wanted = getenv(variable);
    if (wanted == NULL) return;
    const long milliseconds = atol(wanted);
    const struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    const char* mark = getenv("SLOW_WRITES_MARK");
    if (mark != NULL) syscall(SYS_close, (int)syscall(SYS_openat, AT_FDCWD, mark, O_CREAT | O_WRONLY, 0600));
    nanosleep(&pause, NULL);
}

/* The system call itself, so that no other function has to be found before MPI or Slurm's libraries are complete. */
static ssize_t slow_write(int fd, const void* from, size_t size, off_t at) {
    if (size >= smallest) wait_for("SLOW_WRITES_MS");
    return syscall(SYS_pwrite64, fd, from, size, at);
}

static ssize_t slow_read(int fd, void* into, size_t size, off_t at) {
    wait_for("SLOW_READS_MS");
    return syscall(SYS_pread64, fd, into, size, at);
}

ssize_t pwrite(int fd, const void* from, size_t size, off_t at) { return slow_write(fd, from, size, at); }
ssize_t pwrite64(int fd, const void* from, size_t size, off_t at) { return slow_write(fd, from, size, at); }
ssize_t pread(int fd, void* into, size_t size, off_t at) { return slow_read(fd, into, size, at); }
ssize_t pread64(int fd, void* into, size_t size, off_t at) { return slow_read(fd, into, size, at); }
