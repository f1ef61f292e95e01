/* SPDX-License-Identifier: Apache-2.0
 *
 * Most of a short run is the dynamic loader. With TPX_FAULT_SERVER="FD RANKS", a program stops before main(), reads
 * lines from standard input, and for each one runs main() in RANKS children at once, which talk by ranks.c if there are
 * two or more. A line is a list of settings, NAME=VALUE, with tabs between them, for the children's environment. Two
 * lines go to FD: the process number of the first, and the status of the first that failed, as of waitpid(2).
 */
#define _GNU_SOURCE
#include "fault.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { most_ranks = 8 };

static int answers, ranks;
static int (*finalized)(int rank);

/* The functions of shim.c must not be counted here, nor buffer what a child would inherit. */
static int next_line(char* line, size_t size) {
    size_t length = 0;
    while (length + 1 < size) {
        const long got = syscall(SYS_read, 0, line + length, 1);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return 0;
        if (line[length] == '\n') break;
        ++length;
    }
    line[length] = '\0';
    return 1;
}

static void answer(int number) {
    char text[32];
    const int length = snprintf(text, sizeof text, "%d\n", number);
    if (syscall(SYS_write, answers, text, (size_t)length) != length) _exit(1);
}

static void set(char* setting) {
    char* value = strchr(setting, '=');
    if (value == NULL) return;
    *value = '\0';
    setenv(setting, value + 1, 1);
}

static void become_child(char* settings, int rank) {
    char* rest = NULL;
    char own[32];
    for (char* one = strtok_r(settings, "\t", &rest); one != NULL; one = strtok_r(NULL, "\t", &rest)) set(one);
    if (ranks > 1) {
        snprintf(own, sizeof own, "OMPI_COMM_WORLD_RANK=%d", rank);
        set(own);
        snprintf(own, sizeof own, "OMPI_COMM_WORLD_SIZE=%d", ranks);
        set(own);
    }
    unsetenv("TPX_FAULT_SERVER");
    syscall(SYS_close, answers);
    syscall(SYS_close, 0);
    syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY, 0); /* gets number 0 */
    configure();
}

/* The next child that ends; -1 when none does in `milliseconds`, 0 of which are forever. */
static pid_t next_end(int* status, int milliseconds) {
    for (int k = 0;; ++k) {
        const pid_t ended = waitpid(-1, status, milliseconds > 0 ? WNOHANG : 0);
        if (ended > 0) return ended;
        if (ended == 0 && k >= milliseconds) return -1;
        if (ended < 0 && errno != EINTR) return -1;
        if (ended == 0) usleep(1000);
    }
}

/* As mpirun does: the first rank that fails ends the others. */
static int status_of(const pid_t* children) {
    int result = 0, left = ranks, patience = 0;
    while (left > 0) {
        int status = 0;
        const pid_t ended = next_end(&status, patience);
        for (int rank = 0; rank < ranks && ended < 0; ++rank) kill(children[rank], SIGKILL);
        if (ended < 0) {
            patience = 0;
            continue;
        }
        --left;
        for (int rank = 0; rank < ranks; ++rank)
            if (children[rank] == ended && ranks > 1 && status == 0 && !finalized(rank)) status = 0xff00;
        if (result != 0 || status == 0) continue;
        result = status;
        patience = 1000;
        for (int rank = 0; rank < ranks; ++rank)
            if (children[rank] != ended) kill(children[rank], SIGTERM);
    }
    return result;
}

int run_main(Main real, int words, char** arguments, char** environment) {
    const char* server = getenv("TPX_FAULT_SERVER");
    char line[4 * PATH_MAX];
    pid_t children[most_ranks];
    if (server == NULL || sscanf(server, "%d %d", &answers, &ranks) != 2) return real(words, arguments, environment);
    void (*reset)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "fault_ranks_reset");
    finalized = (int (*)(int))dlsym(RTLD_DEFAULT, "fault_ranks_finalized");
    if (ranks > most_ranks || (ranks > 1 && (reset == NULL || finalized == NULL))) return 1;
    while (next_line(line, sizeof line)) {
        if (ranks > 1) reset();
        for (int rank = 0; rank < ranks; ++rank) {
            children[rank] = fork();
            if (children[rank] < 0) return 1;
            if (children[rank] > 0) continue;
            become_child(line, rank);
            return real(words, arguments, environ);
        }
        answer(children[0]);
        answer(status_of(children));
    }
    _exit(0);
}

static Main main_of_program;

static int before_main(int words, char** arguments, char** environment) {
    return run_main(main_of_program, words, arguments, environment);
}

/* The loader has initialized all libraries when this calls main(). */
int __libc_start_main(Main real, int words, char** arguments, void (*init)(void), void (*fini)(void),
                      void (*loader_fini)(void), void* stack);
int __libc_start_main(Main real, int words, char** arguments, void (*init)(void), void (*fini)(void),
                      void (*loader_fini)(void), void* stack) {
    typedef int (*Start)(Main, int, char**, void (*)(void), void (*)(void), void (*)(void), void*);
    const Start start = (Start)dlsym(RTLD_NEXT, "__libc_start_main");
    main_of_program = real;
    return start(before_main, words, arguments, init, fini, loader_fini, stack);
}
