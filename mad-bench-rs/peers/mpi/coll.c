/* Collectives. A sample is the time from the call to the return at the rank that took longest, after a barrier.
 * A: bytes. B: number of the operation in `names`. C: not used.
 *
 * What is received is checked at the first and at the last sample of a block. */
#define _GNU_SOURCE
#define THREADS MPI_THREAD_SINGLE
#define BLOCKS 5
#define RANKS 16
#define SIZES(B) "0:8:" B ":0", "0:1024:" B ":0", "0:65536:" B ":0", "0:1048576:" B ":0"
#define BY_HAND "1000", "0:0:0:0", SIZES("1"), SIZES("2"), SIZES("3"), SIZES("4"), SIZES("5")
#include "peer.h"

enum { BARRIER, BCAST, REDUCE, ALLREDUCE, ALLTOALL, ALLGATHER, OPERATIONS };
static const char *const names[OPERATIONS] = {"barrier", "bcast", "reduce", "allreduce", "alltoall", "allgather"};

static uint8_t *one, *all, *result;

static long count(const struct point *point, long samples)
{
    long least = samples < 5 ? samples : 5, n = samples * 65536 / (point->a > 65536 ? point->a : 65536);
    return n < least ? least : n;
}

/* What part `part` of what `from` gives holds at `i`. */
static uint8_t byte(int from, int part, long i, long turn)
{
    return (uint8_t)((from * 5 + part * 3 + i + turn) % 97);
}

static void once(long size, long operation)
{
    int n = (int)size;
    switch (operation) {
    case BARRIER:
        MPI_Barrier(MPI_COMM_WORLD);
        break;
    case BCAST:
        MPI_Bcast(one, n, MPI_BYTE, 0, MPI_COMM_WORLD);
        break;
    case REDUCE:
        MPI_Reduce(one, result, n, MPI_UINT8_T, MPI_MAX, 0, MPI_COMM_WORLD);
        break;
    case ALLREDUCE:
        MPI_Allreduce(one, result, n, MPI_UINT8_T, MPI_MAX, MPI_COMM_WORLD);
        break;
    case ALLTOALL:
        MPI_Alltoall(all, n, MPI_BYTE, result, n, MPI_BYTE, MPI_COMM_WORLD);
        break;
    default:
        MPI_Allgather(one, n, MPI_BYTE, result, n, MPI_BYTE, MPI_COMM_WORLD);
    }
}

static void fill(long size, long turn)
{
    for (int part = 0; part < ranks; part++)
        for (long i = 0; i < size; i++) {
            one[i] = byte(rank, 0, i, turn);
            all[part * size + i] = byte(rank, part, i, turn);
        }
    memset(result, 255, (size_t)size * (size_t)ranks);
}

static void check(long size, long operation, long turn)
{
    int parts = operation == ALLTOALL || operation == ALLGATHER ? ranks : 1;
    if (operation == BARRIER || (operation == REDUCE && rank != 0))
        return;
    const uint8_t *found = operation == BCAST ? one : result;
    for (int part = 0; part < parts; part++)
        for (long i = 0; i < size; i++) {
            uint8_t right = 0;
            if (operation == ALLTOALL)
                right = byte(part, rank, i, turn);
            else if (operation == ALLGATHER)
                right = byte(part, 0, i, turn);
            else if (operation == BCAST)
                right = byte(0, 0, i, turn);
            else
                for (int from = 0; from < ranks; from++)
                    right = byte(from, 0, i, turn) > right ? byte(from, 0, i, turn) : right;
            if (found[part * size + i] != right) {
                fprintf(stderr, "rank %d: %s of %ld bytes: wrong result\n", rank, names[operation], size);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
}

static void block(struct point *point, long warm, long n)
{
    long size = point->a, operation = point->b, first = point->series[0].n;
    if (size < 0 || size > 1 << 26 || operation < 0 || operation >= OPERATIONS)
        fail("coll: 0 to 2^26 bytes, and one of six operations");
    one = allocate((size_t)size);
    all = allocate((size_t)(size * ranks));
    result = allocate((size_t)(size * ranks));
    fill(size, 0);
    once(size, operation);
    check(size, operation, 0);
    for (long turn = 0; turn < warm + n; turn++) {
        int last = turn + 1 == warm + n;
        if (last)
            fill(size, turn);
        MPI_Barrier(MPI_COMM_WORLD);
        int64_t begun = now_ns();
        once(size, operation);
        int64_t took = now_ns() - begun;
        if (last)
            check(size, operation, turn);
        if (turn >= warm)
            sample(&point->series[0], (double)took);
    }
    double *times = point->series[0].values + first, *slowest = allocate((size_t)n * sizeof(double));
    MPI_Allreduce(times, slowest, (int)n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    memcpy(times, slowest, (size_t)n * sizeof(double));
    free(slowest), free(one), free(all), free(result);
}

static void finish(struct point *point)
{
    if (by_hand && rank == 0)
        printf("%-9s ", names[point->b]);
    emit(point, "op_time", &point->series[0]);
}
