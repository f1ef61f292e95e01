/* SPDX-License-Identifier: Apache-2.0 */
/* Needs nothing but MPI:  mpicc -O2 -shared -fPIC -o libtpx-mpi.so mpi_plugin.c */
#include "mpi_plugin.h"

#include <mpi.h>
#include <string.h>

/* MPI handles are pointers in some MPIs and integers in others. */
static MPI_Comm comm_of(tpx_mpi_comm comm) { return comm == 0 ? MPI_COMM_NULL : (MPI_Comm)comm; }
static tpx_mpi_comm from_comm(MPI_Comm comm) { return comm == MPI_COMM_NULL ? 0 : (tpx_mpi_comm)comm; }
static MPI_Request request_of(tpx_mpi_request request) {
    return request == 0 ? MPI_REQUEST_NULL : (MPI_Request)request;
}
static tpx_mpi_request from_request(MPI_Request request) {
    return request == MPI_REQUEST_NULL ? 0 : (tpx_mpi_request)request;
}

static const char* library(void) {
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "unknown MPI library";
    text[strcspn(text, "\n")] = '\0';
    return text;
}

static void explain(int code, char* text, int size) {
    char whole[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, whole, &length);
    if (length >= size) length = size - 1;
    memcpy(text, whole, (size_t)length);
    text[length] = '\0';
}

static int start(int* allows_threads) {
    int granted = MPI_THREAD_SINGLE;
    const int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &granted);
    *allows_threads = granted >= MPI_THREAD_FUNNELED;
    return code;
}

/* Includes a barrier, because MPI_Finalize need not wait for all ranks. */
static int stop(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
static int end_all(int exit_status) { return MPI_Abort(MPI_COMM_WORLD, exit_status); }

/* Gives a new communicator to tpx, which handles its errors itself. */
static int hand_over(int code, MPI_Comm raw, tpx_mpi_comm* comm) {
    *comm = from_comm(raw);
    return code == MPI_SUCCESS ? MPI_Comm_set_errhandler(raw, MPI_ERRORS_RETURN) : code;
}

static int duplicate_world(tpx_mpi_comm* comm) {
    MPI_Comm raw = MPI_COMM_NULL;
    const int code = MPI_Comm_dup(MPI_COMM_WORLD, &raw);
    return hand_over(code, raw, comm);
}

static int split(tpx_mpi_comm of, int group, int rank, tpx_mpi_comm* comm) {
    MPI_Comm raw = MPI_COMM_NULL;
    const int code = MPI_Comm_split(comm_of(of), group, rank, &raw);
    return hand_over(code, raw, comm);
}

static int release_comm(tpx_mpi_comm comm) {
    MPI_Comm raw = comm_of(comm);
    return MPI_Comm_free(&raw);
}

static int rank_and_size(tpx_mpi_comm comm, int* rank, int* size) {
    const int code = MPI_Comm_rank(comm_of(comm), rank);
    return code == MPI_SUCCESS ? MPI_Comm_size(comm_of(comm), size) : code;
}

static int send_now(const void* data, int bytes, int to, int tag, tpx_mpi_comm comm) {
    return MPI_Send(data, bytes, MPI_BYTE, to, tag, comm_of(comm));
}

static int receive_now(void* data, int bytes, int from, int tag, tpx_mpi_comm comm) {
    return MPI_Recv(data, bytes, MPI_BYTE, from, tag, comm_of(comm), MPI_STATUS_IGNORE);
}

static int start_send(const void* data, int bytes, int to, int tag, tpx_mpi_comm comm, tpx_mpi_request* request) {
    MPI_Request raw = MPI_REQUEST_NULL;
    const int code = MPI_Isend(data, bytes, MPI_BYTE, to, tag, comm_of(comm), &raw);
    *request = from_request(raw);
    return code;
}

static int start_receive(void* data, int bytes, int from, int tag, tpx_mpi_comm comm, tpx_mpi_request* request) {
    MPI_Request raw = MPI_REQUEST_NULL;
    const int code = MPI_Irecv(data, bytes, MPI_BYTE, from, tag, comm_of(comm), &raw);
    *request = from_request(raw);
    return code;
}

static int probe(int tag, tpx_mpi_comm comm, int* from) {
    int there = 0;
    MPI_Status status;
    const int code = MPI_Iprobe(MPI_ANY_SOURCE, tag, comm_of(comm), &there, &status);
    *from = there != 0 ? status.MPI_SOURCE : -1;
    return code;
}

static int start_barrier(tpx_mpi_comm comm, tpx_mpi_request* request) {
    MPI_Request raw = MPI_REQUEST_NULL;
    const int code = MPI_Ibarrier(comm_of(comm), &raw);
    *request = from_request(raw);
    return code;
}

static int start_broadcast(void* data, int bytes, int root, tpx_mpi_comm comm, tpx_mpi_request* request) {
    MPI_Request raw = MPI_REQUEST_NULL;
    const int code = MPI_Ibcast(data, bytes, MPI_BYTE, root, comm_of(comm), &raw);
    *request = from_request(raw);
    return code;
}

static MPI_Op operation_of(enum tpx_mpi_operation operation) {
    switch (operation) {
        case TPX_MPI_MIN:
            return MPI_MIN;
        case TPX_MPI_MAX:
            return MPI_MAX;
        case TPX_MPI_XOR:
            return MPI_BXOR;
        case TPX_MPI_SUM:
            break;
    }
    return MPI_SUM;
}

static int start_combine(const uint64_t* from, uint64_t* into, int count, enum tpx_mpi_operation operation,
                         tpx_mpi_comm comm, tpx_mpi_request* request) {
    MPI_Request raw = MPI_REQUEST_NULL;
    const int code = MPI_Iallreduce(from == NULL ? MPI_IN_PLACE : from, into, count, MPI_UINT64_T,
                                    operation_of(operation), comm_of(comm), &raw);
    *request = from_request(raw);
    return code;
}

static int test(tpx_mpi_request* request, int* done) {
    MPI_Request raw = request_of(*request);
    const int code = MPI_Test(&raw, done, MPI_STATUS_IGNORE);
    *request = from_request(raw);
    return code;
}

static int wait_busy(tpx_mpi_request* request) {
    MPI_Request raw = request_of(*request);
    const int code = MPI_Wait(&raw, MPI_STATUS_IGNORE);
    *request = from_request(raw);
    return code;
}

static int release_request(tpx_mpi_request* request) {
    MPI_Request raw = request_of(*request);
    const int code = MPI_Request_free(&raw);
    *request = from_request(raw);
    return code;
}

const struct tpx_mpi_functions* tpx_mpi_plugin(void) {
    static const struct tpx_mpi_functions table = {
        .version = TPX_MPI_PLUGIN_VERSION,
        .library = library,
        .explain = explain,
        .start = start,
        .stop = stop,
        .abort = end_all,
        .duplicate_world = duplicate_world,
        .split = split,
        .release_comm = release_comm,
        .rank_and_size = rank_and_size,
        .send = send_now,
        .receive = receive_now,
        .start_send = start_send,
        .start_receive = start_receive,
        .probe = probe,
        .start_barrier = start_barrier,
        .start_broadcast = start_broadcast,
        .start_combine = start_combine,
        .test = test,
        .wait = wait_busy,
        .release_request = release_request,
    };
    return &table;
}
