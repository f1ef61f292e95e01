/* SPDX-License-Identifier: Apache-2.0
 * What the parts of the library share: fault.c decides which call fails, shim.c stands before the calls, server.c runs
 * the program again and again. */
#pragma once
#include <limits.h>
#include <stddef.h>
#include <sys/types.h>

enum { most_path = 2 * PATH_MAX };

/* Takes the settings from the environment; the fault and its count start anew. */
void configure(void);

/* The absolute path, as far as it is known, of what `path`, relative to the directory `at`, names; NULL unless it lies
 * below the folder. `buffer` has most_path bytes. */
const char* below_at(int at, const char* path, char* buffer);

/* Of an open file below the folder; NULL of others. */
const char* path_of(int fd);
void remember(int fd, const char* path);
void forget(int fd);

/* Whether a call fails, with errno set. A short count does not make it fail: that is left to shorten(). */
int refuse(const char* category, const char* path);

/* The bytes that a call may move; -1 with errno if it fails. */
ssize_t shorten(const char* category, const char* path, size_t size);

/* The error number of this run's fault. */
int fault_error(void);

/* Whether the file system is to be one, such as NFS, that knows no flags of renameat2(2). */
int renames_plainly(void);

typedef int (*Main)(int, char**, char**);

/* Runs `real` once, or as a server as often as standard input says. */
int run_main(Main real, int words, char** arguments, char** environment);
