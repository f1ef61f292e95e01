/* SPDX-License-Identifier: Apache-2.0 */
/* all_to_all BYTES: every rank sends every other rank an equal part of BYTES at once, three times; prints the median of
 * the seconds until all have everything: what MPI alone needs on a network, without files, plans and checks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double exchange(int rank, int ranks, size_t bytes, char *out, char *in, MPI_Request *requests) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    int count = 0;
    for (int k = 1; k < ranks; ++k)
        MPI_Irecv(in + bytes * k, (int)bytes, MPI_BYTE, (rank + ranks - k) % ranks, 0, MPI_COMM_WORLD, &requests[count++]);
    for (int k = 1; k < ranks; ++k)
        MPI_Isend(out, (int)bytes, MPI_BYTE, (rank + k) % ranks, 0, MPI_COMM_WORLD, &requests[count++]);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime() - begin;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int count, char **arguments) {
    MPI_Init(&count, &arguments);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const size_t bytes = (size_t)(atof(arguments[1]) / ranks / (ranks - 1));
    char *out = malloc(bytes), *in = malloc(bytes * ranks);
    MPI_Request *requests = malloc(2 * ranks * sizeof *requests);
    memset(out, 1, bytes);
    memset(in, 0, bytes * ranks);
    double seconds[3];
    for (int k = 0; k < 3; ++k) seconds[k] = exchange(rank, ranks, bytes, out, in, requests);
    qsort(seconds, 3, sizeof *seconds, compare);
    if (rank == 0) printf("%.3f\n", seconds[1]);
    MPI_Finalize();
    return 0;
}
