/* SPDX-License-Identifier: Apache-2.0
 * Preloaded: writes of tensors take SLOW_WRITES_MS milliseconds longer, so that there is time to stop a small run. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { smallest = 65536 };

static ssize_t slow(const char* name, int fd, const void* from, size_t size, off_t at) {
    ssize_t (*real)(int, const void*, size_t, off_t) = (ssize_t(*)(int, const void*, size_t, off_t))dlsym(RTLD_NEXT, name);
    const char* wanted = getenv("SLOW_WRITES_MS");
    if (wanted != NULL && size >= smallest) {
        const long milliseconds = atol(wanted);
        const struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};
        nanosleep(&pause, NULL);
    }
    return real(fd, from, size, at);
}

ssize_t pwrite(int fd, const void* from, size_t size, off_t at) { return slow("pwrite", fd, from, size, at); }
ssize_t pwrite64(int fd, const void* from, size_t size, off_t at) { return slow("pwrite64", fd, from, size, at); }
