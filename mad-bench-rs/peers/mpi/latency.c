/* Ping-pong, and messages both ways at once. A: bytes of the message. */
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

static void exchange(char *sent, char *received, int size)
{
    MPI_Sendrecv(sent, size, MPI_BYTE, 1 - rank, DATA, received, size, MPI_BYTE, 1 - rank, DATA, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

/* As `exchange`, with requests: how most programs that exchange halos do it. */
static void post_and_wait(char *sent, char *received, int size)
{
    MPI_Request both[2];
    MPI_Irecv(received, size, MPI_BYTE, 1 - rank, DATA, MPI_COMM_WORLD, &both[0]);
    MPI_Isend(sent, size, MPI_BYTE, 1 - rank, DATA, MPI_COMM_WORLD, &both[1]);
    MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
}

static void both_ways(struct point *point, long warm, long n, void (*exchange)(char *, char *, int), struct series *times)
{
    char *sent = allocate((size_t)point->a);
    char *received = allocate((size_t)point->a);
    for (long i = 0; i < warm; i++)
        exchange(sent, received, (int)point->a);
    int64_t before = now_ns();
    for (long i = 0; i < n; i++) {
        exchange(sent, received, (int)point->a);
        int64_t now = now_ns();
        sample(times, (double)(now - before) / 1000.0);
        before = now;
    }
    free(received);
    free(sent);
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
    both_ways(point, warm, n, exchange, &point->series[2]);
    both_ways(point, warm, n, post_and_wait, &point->series[3]);
}

static void finish(struct point *point)
{
    emit(point, "half_round_trip", &point->series[0]);
    if (point->a >= 1024)
        emit(point, "bandwidth", &point->series[1]);
    emit(point, "exchange_time", &point->series[2]);
    emit(point, "waitall_time", &point->series[3]);
}
