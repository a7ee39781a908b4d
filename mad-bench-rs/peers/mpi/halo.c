/* A step of a domain decomposition: compute, exchange halos with the neighbours, agree on a sum. A: bytes of a message.
 * B: length of the computation in microseconds. C: messages each way; of more than two ranks in a ring, those with even
 * numbers go to the right, the others to the left.
 *
 * Every step's data and sum are checked. */
#define _GNU_SOURCE
#define RANKS 64
#ifndef HIDDEN
#define HIDDEN 0 /* the computation comes before the exchange (hidden.c: behind it) */
#define BY_HAND "1000", "0:8192:1000:6"
#endif
#include "app.h"
#include "spin.h"

enum { MOST = 64 };

static char *out, *in;
static long computation;

static void begin(struct point *point)
{
    if (point->a < 1 || point->c < 1 || point->c > MOST)
        fail("halo: a message has a byte at least, and there are 1 to 64 of them");
    size_t bytes = (size_t)point->a * (size_t)point->c;
    out = allocate(bytes);
    in = allocate(bytes);
    calibrate();
    computation = steps_of(point->b);
}

/* What message `m` of step `s` holds in its first and its last byte. */
static char mark(long s, long m, int from)
{
    return (char)(s * 7 + m * 3 + from);
}

/* Where message `m` goes; it comes from the other side. */
static int neighbour(long m)
{
    return (m % 2 ? rank + ranks - 1 : rank + 1) % ranks;
}

static void step(struct point *point, long s)
{
    size_t size = (size_t)point->a;
    long messages = point->c;
    int n = 0;
    MPI_Request requests[2 * MOST];
    if (computation && !HIDDEN)
        steps(computation);
    for (long m = 0; m < messages; m++)
        out[(size_t)m * size] = out[(size_t)(m + 1) * size - 1] = mark(s, m, rank);
    enter();
    for (long m = 0; m < messages; m++)
        MPI_Irecv(in + (size_t)m * size, (int)size, MPI_BYTE, neighbour(m + 1), (int)m, MPI_COMM_WORLD, &requests[n++]);
    for (long m = 0; m < messages; m++)
        MPI_Isend(out + (size_t)m * size, (int)size, MPI_BYTE, neighbour(m), (int)m, MPI_COMM_WORLD, &requests[n++]);
    if (computation && HIDDEN) {
        leave();
        steps(computation);
        enter();
    }
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    double own = (double)(s + rank), sum = 0;
    MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    leave();
    checking();
    for (long m = 0; m < messages; m++) {
        char sent = mark(s, m, neighbour(m + 1));
        if (in[(size_t)m * size] != sent || in[(size_t)(m + 1) * size - 1] != sent)
            wrong("a message holds something else than was sent");
    }
    if (sum != (double)(ranks * s + ranks * (ranks - 1) / 2))
        wrong("the sum");
    checked();
}

static void end(struct point *point)
{
    (void)point;
    free(out);
    free(in);
}
