/* SPDX-License-Identifier: Apache-2.0 */
/* The MPI functions that tpx needs, as a table. A plug-in, mpi_plugin.c compiled with the mpicc of one MPI, provides
 * it; tpx is not linked with MPI and loads the plug-in when a launcher has started it as one of several ranks. */
#ifndef TPX_MPI_PLUGIN_H
#define TPX_MPI_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes whenever the table does. */
#define TPX_MPI_PLUGIN_VERSION 1

/* The name of the only symbol of a plug-in: a function without arguments that returns its table. */
#define TPX_MPI_PLUGIN_SYMBOL "tpx_mpi_plugin"

typedef intptr_t tpx_mpi_comm;    /* an MPI_Comm; 0 for MPI_COMM_NULL */
typedef intptr_t tpx_mpi_request; /* an MPI_Request; 0 for MPI_REQUEST_NULL */

enum tpx_mpi_operation { TPX_MPI_SUM, TPX_MPI_MIN, TPX_MPI_MAX, TPX_MPI_XOR };

/* A function that can fail returns 0 or an MPI error code. Only the thread that called start may make calls that are
 * not local. */
struct tpx_mpi_functions {
    int version;                                     /* TPX_MPI_PLUGIN_VERSION */
    const char* (*library)(void);                    /* version of the MPI library, a line of text */
    void (*explain)(int code, char* text, int size); /* the error as text, truncated to `size` bytes with the final 0 */

    int (*start)(int* allows_threads); /* MPI_Init_thread; whether the process may have other threads */
    int (*stop)(void);                 /* waits for all ranks, then ends MPI */
    int (*abort)(int exit_status);     /* ends all ranks */

    int (*duplicate_world)(tpx_mpi_comm* comm);
    int (*split)(tpx_mpi_comm of, int group, int rank, tpx_mpi_comm* comm);
    int (*release_comm)(tpx_mpi_comm comm); /* collective */
    int (*rank_and_size)(tpx_mpi_comm comm, int* rank, int* size);

    int (*send)(const void* data, int bytes, int to, int tag, tpx_mpi_comm comm);
    int (*receive)(void* data, int bytes, int from, int tag, tpx_mpi_comm comm);
    int (*start_send)(const void* data, int bytes, int to, int tag, tpx_mpi_comm comm, tpx_mpi_request* request);
    int (*start_receive)(void* data, int bytes, int from, int tag, tpx_mpi_comm comm, tpx_mpi_request* request);
    int (*probe)(int tag, tpx_mpi_comm comm, int* from); /* a rank whose message has arrived; -1 for none */

    int (*start_barrier)(tpx_mpi_comm comm, tpx_mpi_request* request);
    int (*start_broadcast)(void* data, int bytes, int root, tpx_mpi_comm comm, tpx_mpi_request* request);
    /* `from` may be null: then `into` holds this rank's values. */
    int (*start_combine)(const uint64_t* from, uint64_t* into, int count, enum tpx_mpi_operation operation,
                         tpx_mpi_comm comm, tpx_mpi_request* request);

    int (*test)(tpx_mpi_request* request, int* done); /* sets a request that is done to 0 */
    int (*wait)(tpx_mpi_request* request);            /* waits without sleeping, as MPI does */
    int (*release_request)(tpx_mpi_request* request);
};

/* A table that stays valid as long as the plug-in is loaded. */
const struct tpx_mpi_functions* tpx_mpi_plugin(void);

#ifdef __cplusplus
}
#endif
#endif
