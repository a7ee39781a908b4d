/* Ping-pong. A: bytes of the message. */
#define _GNU_SOURCE
#define THREADS MPI_THREAD_SINGLE
#include "peer.h"

static long count(const struct point *point, long samples)
{
    return by_bytes(samples, point->a);
}

static void trip(char *buffer, int size)
{
    if (rank == 0) {
        MPI_Send(buffer, size, MPI_BYTE, 1, DATA, MPI_COMM_WORLD);
        MPI_Recv(buffer, size, MPI_BYTE, 1, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(buffer, size, MPI_BYTE, 0, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(buffer, size, MPI_BYTE, 0, DATA, MPI_COMM_WORLD);
    }
}

static void block(struct point *point, long warm, long n)
{
    char *buffer = allocate((size_t)point->a);
    for (long i = 0; i < warm; i++)
        trip(buffer, (int)point->a);
    int64_t before = now_ns();
    for (long i = 0; i < n; i++) {
        trip(buffer, (int)point->a);
        int64_t now = now_ns();
        double us = (double)(now - before) / 2000.0;
        sample(&point->series[0], us);
        sample(&point->series[1], (double)point->a / us);
        before = now;
    }
    free(buffer);
}

static void finish(struct point *point)
{
    emit(point, "half_round_trip", &point->series[0]);
    if (point->a >= 1024)
        emit(point, "bandwidth", &point->series[1]);
}
