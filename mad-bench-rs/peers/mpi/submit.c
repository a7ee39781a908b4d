/* Isend, compute, wait: which core submits the message. A: bytes. B: length of the computation in microseconds. */
#define _GNU_SOURCE
#define THREADS MPI_THREAD_SINGLE
#include "peer.h"
#include "spin.h"

enum { ANSWER = RECORD, PAUSE_US = 30 };
enum { TOTAL, COMPUTE, SEND, SUBMIT, TIMES };

static long count(const struct point *point, long samples)
{
    (void)point;
    return samples;
}

static void receive(const struct point *point, char *buffer)
{
    MPI_Request request;
    for (int turn = 0; turn < 2; turn++) {
        MPI_Irecv(buffer, (int)point->a, MPI_BYTE, 0, DATA, MPI_COMM_WORLD, &request);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Send(NULL, 0, MPI_BYTE, 0, ANSWER, MPI_COMM_WORLD);
    }
}

/* With the computation, without it, and the computation alone. */
static void once(const struct point *point, char *buffer, double *us)
{
    MPI_Request request, answer;
    if (rank == 1) {
        receive(point, buffer);
        return;
    }
    for (int turn = 0; turn < 2; turn++) {
        MPI_Irecv(NULL, 0, MPI_BYTE, 1, ANSWER, MPI_COMM_WORLD, &answer);
        MPI_Barrier(MPI_COMM_WORLD);
        steps(steps_of(PAUSE_US));
        int64_t start = now_ns();
        MPI_Isend(buffer, (int)point->a, MPI_BYTE, 1, DATA, MPI_COMM_WORLD, &request);
        int64_t submitted = now_ns();
        if (turn == 0)
            steps(steps_of(point->b));
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        int64_t end = now_ns();
        MPI_Wait(&answer, MPI_STATUS_IGNORE);
        us[turn == 0 ? TOTAL : SEND] = (double)(end - start) / 1000.0;
        if (turn == 0)
            us[SUBMIT] = (double)(submitted - start) / 1000.0;
    }
    int64_t start = now_ns();
    steps(steps_of(point->b));
    us[COMPUTE] = (double)(now_ns() - start) / 1000.0;
}

static void block(struct point *point, long warm, long n)
{
    char *buffer = allocate((size_t)point->a);
    double us[TIMES];
    calibrate();
    once(point, buffer, us); /* to touch everything once */
    (void)warm;
    for (long i = 0; i < n; i++) {
        once(point, buffer, us);
        for (int j = 0; rank == 0 && j < TIMES; j++)
            sample(&point->series[j], us[j]);
    }
    free(buffer);
}

static void finish(struct point *point)
{
    static const char *const names[TIMES] = {"total_time", "compute_time", "send_time", "submit_time"};
    for (int i = 0; i < TIMES; i++)
        emit(point, names[i], &point->series[i]);
}
