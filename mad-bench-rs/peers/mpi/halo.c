/* A step of a domain decomposition: compute, exchange halos with the neighbour, agree on a sum. A: bytes of a message.
 * B: length of the computation in microseconds. C: messages each way.
 *
 * Every step's data and sum are checked: a program whose result is wrong ends with an error. */
#define _GNU_SOURCE
#define THREADS MPI_THREAD_SINGLE
#include "peer.h"
#include "spin.h"

enum { MPI, COMPUTE, TOTAL, TIMES, MOST = 64 };

static long count(const struct point *point, long samples)
{
    (void)point;
    return samples;
}

/* What message `m` of step `s` holds in its first and its last byte. */
static char mark(long s, long m, int from)
{
    return (char)(s * 7 + m * 3 + from);
}

static void step(struct point *point, long s, char *out, char *in)
{
    size_t size = (size_t)point->a;
    long messages = point->c;
    int peer = 1 - rank, n = 0;
    MPI_Request requests[2 * MOST];
    int64_t begun = now_ns();
    if (point->b)
        steps(steps_of(point->b));
    for (long m = 0; m < messages; m++)
        out[(size_t)m * size] = out[(size_t)(m + 1) * size - 1] = mark(s, m, rank);
    int64_t computed = now_ns();
    for (long m = 0; m < messages; m++)
        MPI_Irecv(in + (size_t)m * size, (int)size, MPI_BYTE, peer, (int)m, MPI_COMM_WORLD, &requests[n++]);
    for (long m = 0; m < messages; m++)
        MPI_Isend(out + (size_t)m * size, (int)size, MPI_BYTE, peer, (int)m, MPI_COMM_WORLD, &requests[n++]);
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    double own = (double)(s + rank), sum = 0;
    MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    int64_t over = now_ns();
    for (long m = 0; m < messages; m++)
        if (in[(size_t)m * size] != mark(s, m, peer) || in[(size_t)(m + 1) * size - 1] != mark(s, m, peer))
            fail("a message holds something else than was sent");
    if (sum != (double)(2 * s + 1))
        fail("the sum is wrong");
    sample(&point->series[MPI], (double)(over - computed) / 1000.0);
    sample(&point->series[COMPUTE], (double)(computed - begun) / 1000.0);
    sample(&point->series[TOTAL], (double)(over - begun) / 1000.0);
}

static void block(struct point *point, long warm, long n)
{
    if (point->a < 1 || point->c < 1 || point->c > MOST)
        fail("halo: a message has a byte at least, and there are 1 to 64 of them");
    size_t bytes = (size_t)point->a * (size_t)point->c;
    char *out = allocate(bytes), *in = allocate(bytes);
    calibrate();
    long kept[TIMES];
    for (int i = 0; i < TIMES; i++)
        kept[i] = point->series[i].n;
    for (long s = 0; s < warm; s++)
        step(point, s, out, in);
    for (int i = 0; i < TIMES; i++)
        point->series[i].n = kept[i];
    for (long s = 0; s < n; s++)
        step(point, warm + s, out, in);
    free(out);
    free(in);
}

static void finish(struct point *point)
{
    static const char *const names[TIMES] = {"mpi_time", "compute_time", "total_time"};
    for (int i = 0; i < TIMES; i++)
        emit(point, names[i], &point->series[i]);
}
