/* Messages one way, a window of them under way at once, each from and into a buffer of its own; an empty answer ends a
 * window. A: bytes of a message. B: messages of a window. */
#define _GNU_SOURCE
#define THREADS MPI_THREAD_SINGLE
#include "peer.h"

static long count(const struct point *point, long samples)
{
    return by_bytes(samples, point->a * point->b);
}

static void window(const struct point *point, char *buffer, MPI_Request *requests)
{
    for (long i = 0; i < point->b; i++) {
        char *at = buffer + i * point->a;
        if (rank == 0)
            MPI_Isend(at, (int)point->a, MPI_BYTE, 1, DATA, MPI_COMM_WORLD, &requests[i]);
        else
            MPI_Irecv(at, (int)point->a, MPI_BYTE, 0, DATA, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall((int)point->b, requests, MPI_STATUSES_IGNORE);
    if (rank == 0)
        MPI_Recv(NULL, 0, MPI_BYTE, 1, RECORD, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Send(NULL, 0, MPI_BYTE, 0, RECORD, MPI_COMM_WORLD);
}

static void block(struct point *point, long warm, long n)
{
    char *buffer = allocate((size_t)(point->a * point->b));
    MPI_Request *requests = allocate((size_t)point->b * sizeof *requests);
    for (long i = 0; i < warm; i++)
        window(point, buffer, requests);
    int64_t before = now_ns();
    for (long i = 0; i < n; i++) {
        window(point, buffer, requests);
        int64_t now = now_ns();
        double us = (double)(now - before) / 1000.0;
        sample(&point->series[0], (double)(point->a * point->b) / us);
        sample(&point->series[1], (double)point->b / us);
        before = now;
    }
    free(buffer);
    free(requests);
}

static void finish(struct point *point)
{
    emit(point, "bandwidth", &point->series[0]);
    emit(point, "message_rate", &point->series[1]);
}
