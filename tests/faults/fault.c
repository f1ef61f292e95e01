/* SPDX-License-Identifier: Apache-2.0
 *
 * A library for LD_PRELOAD in which one file system call of a process fails. Only calls on paths below one folder are
 * counted, so that the dynamic loader, MPI and the C library are left alone.
 *
 *   TPX_FAULT_FOLDER  the folder, absolute and without links
 *   TPX_FAULT_AT      which call fails: "CATEGORY NUMBER PATH", counted from 1 among those of the category on that
 *                     path, which is relative to the folder; nothing: none does. CATEGORY can be "any", PATH "*"
 *   TPX_FAULT_KIND    EIO, ENOSPC, EDQUOT, EACCES, EINTR; short: reads and writes move half of the bytes; KILL: the
 *                     process is killed instead of making the call; STOP: it is stopped, and makes the call when it is
 *                     continued
 *   TPX_FAULT_ONWARD  if 1, all later calls of the same category fail as well
 *   TPX_FAULT_RANK    if set, only processes with this OMPI_COMM_WORLD_RANK count
 *   TPX_FAULT_TRACE   a file; ".RANK" is appended. Each call adds "CATEGORY PATH"; with TPX_FAULT_AT, only those that
 *                     fail
 *   TPX_FAULT_PLAIN   if set, renameat2(2) takes no flags
 *   TPX_FAULT_SERVER  see server.c
 *
 * In paths, what follows ".partial-" and ".old-" is "*": it is another one in each run.
 */
#define _GNU_SOURCE
#include "fault.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { most_files = 4096, most_category = 16 };

static atomic_int calls, begun;
static char folder[PATH_MAX], target[PATH_MAX], category_of_target[most_category];
static size_t folder_length;
static int number_of_target, onward, trace = -1, short_count, kills, stops, error_code;
static char* _Atomic paths[most_files]; /* of open files below the folder */

static int has(const char* name) {
    const char* value = getenv(name);
    return value != NULL && value[0] != '\0';
}

static void open_trace(const char* rank) {
    char file[PATH_MAX];
    if (trace >= 0) syscall(SYS_close, trace);
    trace = -1;
    if (!has("TPX_FAULT_TRACE")) return;
    snprintf(file, sizeof file, "%s.%s", getenv("TPX_FAULT_TRACE"), rank);
    trace = (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

static int error_named(const char* kind) {
    if (kind != NULL && strcmp(kind, "ENOSPC") == 0) return ENOSPC;
    if (kind != NULL && strcmp(kind, "EDQUOT") == 0) return EDQUOT;
    if (kind != NULL && strcmp(kind, "EACCES") == 0) return EACCES;
    if (kind != NULL && strcmp(kind, "EINTR") == 0) return EINTR;
    return EIO;
}

void configure(void) {
    const char* name = getenv("TPX_FAULT_FOLDER");
    const char* own = has("OMPI_COMM_WORLD_RANK") ? getenv("OMPI_COMM_WORLD_RANK") : "0";
    const char* kind = getenv("TPX_FAULT_KIND");
    folder_length = 0;
    if (name == NULL || strlen(name) >= sizeof folder) return;
    if (has("TPX_FAULT_RANK") && strcmp(getenv("TPX_FAULT_RANK"), own) != 0) return;
    calls = begun = number_of_target = 0;
    if (has("TPX_FAULT_AT")) {
        int start = 0;
        sscanf(getenv("TPX_FAULT_AT"), "%15s %d %n", category_of_target, &number_of_target, &start);
        snprintf(target, sizeof target, "%s", getenv("TPX_FAULT_AT") + start);
    }
    onward = has("TPX_FAULT_ONWARD");
    short_count = kind != NULL && strcmp(kind, "short") == 0;
    kills = kind != NULL && strcmp(kind, "KILL") == 0;
    stops = kind != NULL && strcmp(kind, "STOP") == 0;
    error_code = error_named(kind);
    open_trace(own);
    strcpy(folder, name);
    folder_length = strlen(folder); /* last: now it counts */
}

__attribute__((constructor)) static void start(void) { configure(); }

static int is_below(const char* path) {
    return strncmp(path, folder, folder_length) == 0 && (path[folder_length] == '/' || path[folder_length] == '\0');
}

const char* below_at(int at, const char* path, char* buffer) {
    if (folder_length == 0 || path == NULL || path[0] == '\0') return NULL;
    if (path[0] == '/') return is_below(path) ? path : NULL;
    if (at != AT_FDCWD) {
        if (path_of(at) == NULL) return NULL;
        snprintf(buffer, most_path, "%s/%s", path_of(at), path);
    } else {
        if (syscall(SYS_getcwd, buffer, PATH_MAX) < 0) return NULL;
        const size_t length = strlen(buffer);
        snprintf(buffer + length, most_path - length, "/%s", path);
    }
    return is_below(buffer) ? buffer : NULL;
}

const char* path_of(int fd) { return fd >= 0 && fd < most_files ? paths[fd] : NULL; }

void remember(int fd, const char* path) {
    if (fd >= 0 && fd < most_files) free(atomic_exchange(&paths[fd], strdup(path)));
}

void forget(int fd) {
    if (fd >= 0 && fd < most_files) free(atomic_exchange(&paths[fd], NULL));
}

/* `path` relative to the folder, and with what differs between runs as "*". */
static void shorten_name(const char* path, char* into, size_t size) {
    static const char* const before[] = {".partial-", ".old-"};
    size_t length = 0;
    path += folder_length;
    while (*path == '/') ++path;
    if (*path == '\0') path = ".";
    while (*path != '\0' && length + 16 < size) {
        const char* start = path;
        for (size_t k = 0; k < 2 && start == path; ++k) {
            const size_t prefix = strlen(before[k]);
            if (strncmp(path, before[k], prefix) != 0) continue;
            memcpy(into + length, before[k], prefix);
            length += prefix;
            into[length++] = '*';
            path += prefix;
            while (isalnum((unsigned char)*path) || *path == '-') ++path;
        }
        if (start == path) into[length++] = *path++;
    }
    into[length] = '\0';
}

static void note(const char* category, const char* name) {
    char line[PATH_MAX + 64];
    const int length = snprintf(line, sizeof line, "%s %s\n", category, name);
    if (length > 0) syscall(SYS_write, trace, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}

/* Counts a call; returns 1 when it has to fail. */
static int fails(const char* category, const char* path) {
    char name[PATH_MAX];
    int fail = 0;
    if (number_of_target == 0 && trace < 0) return 0;
    shorten_name(path, name, sizeof name);
    if (number_of_target == 0) {
        note(category, name);
        return 0;
    }
    if (strcmp(category, category_of_target) != 0 && strcmp(category_of_target, "any") != 0) return 0;
    if (strcmp(name, target) == 0 || strcmp(target, "*") == 0) fail = atomic_fetch_add(&calls, 1) + 1 == number_of_target;
    if (fail) begun = 1;
    if (onward && begun) fail = 1;
    if (fail && trace >= 0) note(category, name);
    if (fail && kills) syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
    if (fail && stops) return syscall(SYS_kill, syscall(SYS_getpid), SIGSTOP), 0;
    return fail;
}

int refuse(const char* category, const char* path) {
    if (!fails(category, path) || short_count) return 0;
    errno = error_code;
    return 1;
}

ssize_t shorten(const char* category, const char* path, size_t size) {
    if (!fails(category, path)) return (ssize_t)size;
    if (short_count) return size > 1 ? (ssize_t)(size / 2) : (ssize_t)size;
    errno = error_code;
    return -1;
}

int fault_error(void) { return error_code; }

int renames_plainly(void) { return has("TPX_FAULT_PLAIN"); }
