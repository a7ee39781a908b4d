/* Rank 0 waits for a message that comes late, and does nothing else. A: seconds. */
#define _GNU_SOURCE
#define THREADS MPI_THREAD_SINGLE
#include "peer.h"

static long count(const struct point *point, long samples)
{
    (void)point;
    return samples;
}

static void once(struct point *point)
{
    char message[4] = {1, 1, 1, 1};
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        int64_t cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID), start = now_ns();
        MPI_Recv(message, 4, MPI_BYTE, 1, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sample(&point->series[0], (double)(read_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 1000.0);
        sample(&point->series[1], (double)(now_ns() - start) / 1000.0);
    } else {
        sleep((unsigned)point->a);
        MPI_Send(message, 4, MPI_BYTE, 0, DATA, MPI_COMM_WORLD);
    }
}

static void block(struct point *point, long warm, long n)
{
    (void)warm;
    for (long i = 0; i < n; i++)
        once(point);
}

static void finish(struct point *point)
{
    emit(point, "cpu_time", &point->series[0]);
    emit(point, "recv_time", &point->series[1]);
}
