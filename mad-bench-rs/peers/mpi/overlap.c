/* One side computes while a message is under way. A: bytes. B: length of the computation in microseconds. C: the
 * side that computes: 0, both compute in turn and nothing is sent; 1 the receiver; 2 the sender; 3 both, each sending. */
#define _GNU_SOURCE
#define THREADS MPI_THREAD_SINGLE
#include "peer.h"
#include "spin.h"
#include <sys/prctl.h>

enum { ALONE, RECEIVER, SENDER, BOTH, PAUSE_US = 300 };
enum { SEND, RECV, COMPUTE, TOTAL, TIMES };

static int64_t compute(long us)
{
    if (us == 0)
        return 0;
    int64_t start = now_ns();
    steps(steps_of(us));
    return now_ns() - start;
}

static long count(const struct point *point, long samples)
{
    (void)point;
    return samples;
}

static void together(long us)
{
    for (int i = 0; i < (us ? 1 : 3); i++)
        MPI_Barrier(MPI_COMM_WORLD);
}

static void head_start(long us)
{
    if (us)
        usleep((useconds_t)(us / 4 < PAUSE_US ? us / 4 : PAUSE_US));
}

static void tell(const int64_t *times)
{
    MPI_Send(times, TIMES * 8, MPI_BYTE, 0, RECORD, MPI_COMM_WORLD);
}

static void keep(struct point *point, const int64_t *times)
{
    for (int i = 0; i < TIMES; i++)
        if (times[i] > 0)
            sample(&point->series[i], (double)times[i] / 1000.0);
}

static void hear(struct point *point, int64_t start)
{
    int64_t times[TIMES];
    MPI_Recv(times, TIMES * 8, MPI_BYTE, 1, RECORD, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (times[RECV])
        times[RECV] -= start;
    keep(point, times);
}

static void once(struct point *point, char *buffer, char *other)
{
    int size = (int)point->a, peer = 1 - rank;
    int64_t times[TIMES] = {0}, start;
    MPI_Request request, second;
    if (point->c == ALONE) {
        MPI_Barrier(MPI_COMM_WORLD);
        for (int turn = 0; turn < 2; turn++) {
            if (rank == turn) {
                head_start(point->b);
                times[COMPUTE] = compute(point->b);
                if (rank == 0)
                    keep(point, times);
                else
                    tell(times);
            } else if (rank == 0) {
                hear(point, 0);
            }
            MPI_Barrier(MPI_COMM_WORLD);
        }
        return;
    }
    if (point->c == BOTH || rank != 0)
        if (point->c != SENDER)
            MPI_Irecv(other, size, MPI_BYTE, peer, DATA, MPI_COMM_WORLD, &request);
    together(point->b);
    if (point->c == BOTH) {
        start = now_ns();
        MPI_Isend(buffer, size, MPI_BYTE, peer, DATA, MPI_COMM_WORLD, &second);
        times[COMPUTE] = compute(point->b);
        MPI_Wait(&second, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        times[TOTAL] = now_ns() - start;
        if (rank == 0) {
            keep(point, times);
            hear(point, start);
        } else {
            tell(times);
        }
    } else if (point->c == RECEIVER && rank == 0) {
        head_start(point->b);
        start = now_ns();
        MPI_Send(buffer, size, MPI_BYTE, peer, DATA, MPI_COMM_WORLD);
        times[SEND] = now_ns() - start;
        keep(point, times);
        hear(point, start);
    } else if (point->c == RECEIVER) {
        start = now_ns();
        times[COMPUTE] = compute(point->b);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        times[RECV] = now_ns();
        times[TOTAL] = times[RECV] - start;
        tell(times);
    } else if (rank == 0) {
        head_start(point->b);
        start = now_ns();
        MPI_Isend(buffer, size, MPI_BYTE, peer, DATA, MPI_COMM_WORLD, &request);
        times[COMPUTE] = compute(point->b);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        times[TOTAL] = now_ns() - start;
        keep(point, times);
        hear(point, start);
    } else {
        MPI_Recv(other, size, MPI_BYTE, peer, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        times[RECV] = now_ns();
        tell(times);
    }
}

static void block(struct point *point, long warm, long n)
{
    char *buffer = allocate((size_t)point->a), *other = allocate((size_t)point->a);
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); /* so that a short head start is short */
    calibrate();
    long us = point->b;
    struct series before[TIMES];
    memcpy(before, point->series, sizeof before);
    point->b = 0; /* to touch everything once, without computing */
    once(point, buffer, other);
    (void)warm;
    point->b = us;
    for (int i = 0; i < TIMES; i++)
        point->series[i].n = before[i].n;
    for (long i = 0; i < n; i++)
        once(point, buffer, other);
    free(buffer);
    free(other);
}

static void finish(struct point *point)
{
    static const char *const names[TIMES] = {"send_time", "recv_time", "compute_time", "total_time"};
    for (int i = 0; i < TIMES; i++)
        emit(point, names[i], &point->series[i]);
}
