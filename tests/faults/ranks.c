/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of MPI that tpx reshard and verify use, between the children that server.c forks: mpirun takes fifty times
 * as long as such a run. What a rank says to the others, it appends to its part of a shared memory; nothing is ever
 * removed, as a run is short. Collective calls on a communicator are numbered, and so find what belongs together. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { most_ranks = 8, most_communicators = 16, most_requests = 64 };
static const size_t room = (size_t)64 << 20; /* of a rank */

struct Message {
    int communicator, number;
    size_t size;
    char bytes[];
};

struct Part {
    _Atomic size_t used; /* bytes of messages */
    atomic_int finalized;
    max_align_t messages[];
};

enum Kind { barrier, broadcast, reduce };

struct Request {
    int in_use, communicator, number, root;
    enum Kind kind;
    void* into;
    int count;
    MPI_Datatype type;
    MPI_Op operation;
};

static char* memory;
static int own, size, communicators = 1;
static int numbers[most_communicators];
static struct Request requests[most_requests];

static struct Part* part(int rank) { return (struct Part*)(memory + (size_t)rank * room); }

/* Called by server.c before it forks the ranks of a run. */
void fault_ranks_reset(void);
void fault_ranks_reset(void) {
    if (memory == NULL)
        memory = mmap(NULL, most_ranks * room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                      0);
    if (memory == MAP_FAILED) abort();
    for (int rank = 0; rank < most_ranks; ++rank) {
        part(rank)->used = 0;
        part(rank)->finalized = 0;
    }
}

/* Called by server.c when a rank has ended. */
int fault_ranks_finalized(int rank);
int fault_ranks_finalized(int rank) { return part(rank)->finalized; }

static size_t padded(size_t bytes) {
    return (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
}

static void say(const struct Request* request, const void* bytes, size_t length) {
    struct Part* mine = part(own);
    const size_t needed = padded(sizeof(struct Message) + length);
    if (sizeof *mine + mine->used + needed > room) abort();
    struct Message* message = (struct Message*)((char*)mine->messages + mine->used);
    message->communicator = request->communicator;
    message->number = request->number;
    message->size = length;
    if (length > 0) memcpy(message->bytes, bytes, length);
    mine->used += needed; /* now the others see it */
}

/* What `rank` has said; NULL as long as it has not. */
static const struct Message* heard(const struct Request* request, int rank) {
    const struct Part* theirs = part(rank);
    const size_t used = theirs->used;
    for (size_t at = 0; at < used;) {
        const struct Message* message = (const struct Message*)((const char*)theirs->messages + at);
        if (message->communicator == request->communicator && message->number == request->number) return message;
        at += padded(sizeof *message + message->size);
    }
    return NULL;
}

static size_t size_of(MPI_Datatype type) { return type == MPI_UINT64_T ? 8 : type == MPI_INT ? sizeof(int) : 1; }

#define COMBINE(name, type)                                                             \
    static void name(type* into, const type* from, int count, MPI_Op operation) {       \
        for (int k = 0; k < count; ++k) {                                               \
            if (operation == MPI_BXOR) into[k] ^= from[k];                              \
            else if (operation == MPI_SUM) into[k] += from[k];                          \
            else if (operation == MPI_MIN) into[k] = from[k] < into[k] ? from[k] : into[k]; \
            else if (operation == MPI_MAX) into[k] = from[k] > into[k] ? from[k] : into[k]; \
            else abort();                                                               \
        }                                                                               \
    }
COMBINE(combine_words, uint64_t)
COMBINE(combine_integers, int)

/* Whether the request is complete; its result is in place then. */
static int complete(const struct Request* request) {
    const struct Message* said[most_ranks];
    for (int rank = 0; rank < size; ++rank) {
        said[rank] = heard(request, rank);
        if (said[rank] == NULL && (request->kind != broadcast || rank == request->root)) return 0;
    }
    if (request->kind == broadcast && own != request->root)
        memcpy(request->into, said[request->root]->bytes, said[request->root]->size);
    if (request->kind != reduce) return 1;
    memcpy(request->into, said[0]->bytes, said[0]->size);
    for (int rank = 1; rank < size; ++rank) {
        if (request->type == MPI_UINT64_T)
            combine_words(request->into, (const void*)said[rank]->bytes, request->count, request->operation);
        else
            combine_integers(request->into, (const void*)said[rank]->bytes, request->count, request->operation);
    }
    return 1;
}

static int index_of(MPI_Comm communicator) {
    return communicator == MPI_COMM_WORLD ? 0 : (int)(intptr_t)communicator;
}

static struct Request* begin(enum Kind kind, MPI_Comm communicator, MPI_Request* handle) {
    for (int k = 0; k < most_requests; ++k) {
        if (requests[k].in_use) continue;
        const int index = index_of(communicator);
        requests[k] = (struct Request){.in_use = 1, .communicator = index, .number = numbers[index]++, .kind = kind};
        *handle = (MPI_Request)(intptr_t)(k + 1);
        return &requests[k];
    }
    abort();
}

int MPI_Init_thread(int* words, char*** arguments, int wanted, int* granted) {
    (void)words, (void)arguments;
    own = atoi(getenv("OMPI_COMM_WORLD_RANK"));
    size = atoi(getenv("OMPI_COMM_WORLD_SIZE"));
    *granted = wanted;
    return MPI_SUCCESS;
}

int MPI_Comm_rank(MPI_Comm communicator, int* rank) { return (void)communicator, *rank = own, MPI_SUCCESS; }
int MPI_Comm_size(MPI_Comm communicator, int* ranks) { return (void)communicator, *ranks = size, MPI_SUCCESS; }
int MPI_Comm_free(MPI_Comm* communicator) { return *communicator = MPI_COMM_NULL, MPI_SUCCESS; }
int MPI_Comm_set_errhandler(MPI_Comm communicator, MPI_Errhandler handler) {
    return (void)communicator, (void)handler, MPI_SUCCESS;
}

/* All ranks duplicate in the same order. */
int MPI_Comm_dup(MPI_Comm communicator, MPI_Comm* made) {
    (void)communicator;
    if (communicators == most_communicators) abort();
    *made = (MPI_Comm)(intptr_t)communicators++;
    return MPI_SUCCESS;
}

int MPI_Ibarrier(MPI_Comm communicator, MPI_Request* handle) {
    say(begin(barrier, communicator, handle), NULL, 0);
    return MPI_SUCCESS;
}

int MPI_Ibcast(void* bytes, int count, MPI_Datatype type, int root, MPI_Comm communicator, MPI_Request* handle) {
    struct Request* request = begin(broadcast, communicator, handle);
    request->into = bytes;
    request->root = root;
    if (own == root) say(request, bytes, (size_t)count * size_of(type));
    return MPI_SUCCESS;
}

int MPI_Iallreduce(const void* from, void* into, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm communicator,
                   MPI_Request* handle) {
    struct Request* request = begin(reduce, communicator, handle);
    request->into = into;
    request->count = count;
    request->type = type;
    request->operation = operation;
    say(request, from == MPI_IN_PLACE ? into : from, (size_t)count * size_of(type));
    return MPI_SUCCESS;
}

int MPI_Test(MPI_Request* handle, int* done, MPI_Status* status) {
    (void)status;
    *done = 1;
    if (*handle == MPI_REQUEST_NULL) return MPI_SUCCESS;
    struct Request* request = &requests[(intptr_t)*handle - 1];
    *done = complete(request);
    if (!*done) {
        sched_yield(); /* the others may have no other core */
        return MPI_SUCCESS;
    }
    request->in_use = 0;
    *handle = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

/* Signs of life between ranks: none arrives, and no run takes as long as one would wait for them. */
int MPI_Isend(const void* bytes, int count, MPI_Datatype type, int rank, int tag, MPI_Comm communicator,
              MPI_Request* handle) {
    (void)bytes, (void)count, (void)type, (void)rank, (void)tag, (void)communicator;
    *handle = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

int MPI_Iprobe(int rank, int tag, MPI_Comm communicator, int* there, MPI_Status* status) {
    (void)rank, (void)tag, (void)communicator, (void)status;
    *there = 0;
    return MPI_SUCCESS;
}

int MPI_Barrier(MPI_Comm communicator) {
    MPI_Request handle = MPI_REQUEST_NULL;
    int done = 0;
    MPI_Ibarrier(communicator, &handle);
    while (!done) MPI_Test(&handle, &done, MPI_STATUS_IGNORE);
    return MPI_SUCCESS;
}

int MPI_Finalize(void) {
    part(own)->finalized = 1;
    return MPI_SUCCESS;
}

/* The server ends the others, as mpirun does. */
int MPI_Abort(MPI_Comm communicator, int code) {
    (void)communicator;
    part(own)->finalized = 1;
    _exit(code);
}
