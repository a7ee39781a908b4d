/* One-sided accesses of rank 0 to the memory of rank 1. A sample is the time of one access to its end at the target, which a
 * flush awaits; of MANY accesses with one flush, divided by MANY.
 * A: bytes, a multiple of 8. B: number of the operation in `names`, and 16 more if the program has allocated the memory.
 * C: microseconds that rank 1 computes meanwhile without a call; 0: it waits in a barrier.
 *
 * All that is put, got and added is checked. */
#define _GNU_SOURCE
#define THREADS MPI_THREAD_SINGLE
#define BLOCKS 5
#define BY_HAND "200", "0:8:0:0", "0:8:1:0", "0:8:2:0", "0:8:3:0", "0:8:4:0", "0:8:5:0", "0:1048576:0:0", "0:1048576:1:0", \
    "0:65536:5:0", "0:65536:6:0", "0:8:0:20000", "0:8:2:20000", "0:1048576:1:20000"
#include "peer.h"
#include "spin.h"

enum { PUT, GET, ACCUMULATE, FETCH, SWAP, PUTS, GETS, ACCUMULATES, OPERATIONS };
enum { MANY = 64, CREATED = 16 };

static MPI_Win win;
static int64_t *memory, *mine;
static long elements, total;

/* What element `i` holds in turn `turn`. */
static int64_t mark(long turn, long i)
{
    return turn * 1009 + i;
}

static long count(const struct point *point, long samples)
{
    if (point->c > 0)
        return samples < 30 ? samples : 30;
    long least = samples < LEAST ? samples : LEAST, bytes = point->a * (point->b % CREATED >= PUTS ? MANY : 1);
    long n = samples * 4096 / (bytes > 4096 ? bytes : 4096);
    return n < least ? least : n;
}

/* Where access `k` of many goes. */
static MPI_Aint place(long k)
{
    return k * elements;
}

static void access_once(long operation, long k)
{
    int n = (int)elements;
    static int64_t one = 1, old;
    static int swapped = 1, compare, found;
    MPI_Aint at = place(k);
    switch (operation) {
    case PUT:
    case PUTS:
        MPI_Put(mine, n, MPI_INT64_T, 1, at, n, MPI_INT64_T, win);
        break;
    case GET:
    case GETS:
        MPI_Get(mine + at, n, MPI_INT64_T, 1, at, n, MPI_INT64_T, win);
        break;
    case ACCUMULATE:
    case ACCUMULATES:
        MPI_Accumulate(mine, n, MPI_INT64_T, 1, at, n, MPI_INT64_T, MPI_SUM, win);
        break;
    case FETCH:
        MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 1, 0, MPI_SUM, win);
        break;
    default:
        /* Of an int: with longs Open MPI 4.1 crashes. */
        MPI_Compare_and_swap(&swapped, &compare, &found, MPI_INT, 1, 0, win);
    }
}

/* Rank 1's memory before a turn. */
static void fill(long operation, long turn)
{
    int gets = operation == GET || operation == GETS;
    for (long i = 0; i < total; i++)
        memory[i] = gets && rank == 1 ? mark(turn, i) : 0;
    for (long i = 0; i < total; i++)
        mine[i] = gets ? -1 : mark(turn, i);
}

static void check(long operation, long turn, long times)
{
    int ok = 1;
    if (rank == 0 && (operation == GET || operation == GETS))
        for (long i = 0; i < (operation == GET ? elements : total); i++)
            ok &= mine[i] == mark(turn, i);
    if (rank == 1)
        switch (operation) {
        case PUT:
        case PUTS:
            for (long i = 0; i < (operation == PUT ? elements : total); i++)
                ok &= memory[i] == mark(turn, i % elements);
            break;
        case ACCUMULATE:
        case ACCUMULATES:
            for (long i = 0; i < (operation == ACCUMULATE ? elements : total); i++)
                ok &= memory[i] == times * mark(turn, i % elements);
            break;
        case FETCH:
            ok = memory[0] == times;
            break;
        case SWAP:
            ok = *(int *)memory == 1;
        }
    if (!ok)
        fail("the memory holds something else than it should");
}

static void block(struct point *point, long warm, long n)
{
    static long turn;
    long operation = point->b % CREATED, accesses = operation >= PUTS ? MANY : 1;
    elements = point->a / 8;
    total = elements * accesses;
    MPI_Aint bytes = (total * 8 + 63) / 64 * 64; /* with other lengths MPICH 4.0 writes beside the memory */
    mine = allocate((size_t)bytes);
    if (point->b >= CREATED) {
        memory = allocate((size_t)bytes);
        MPI_Win_create(memory, bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    } else {
        MPI_Win_allocate(bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    }
    calibrate();
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    fill(operation, ++turn);
    MPI_Win_unlock(rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (point->c > 0)
        warm = 1;
    if (rank == 0)
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
    for (long i = 0; i < warm + n; i++) {
        if (point->c > 0) {
            MPI_Barrier(MPI_COMM_WORLD);
            steps(rank == 1 ? steps_of(point->c) : steps_of(point->c / 10));
        }
        if (rank == 0) {
            int64_t start = now_ns();
            for (long k = 0; k < accesses; k++)
                access_once(operation, k);
            MPI_Win_flush(1, win);
            if (i >= warm)
                sample(&point->series[0], (double)(now_ns() - start) / (double)accesses);
        }
    }
    if (rank == 0)
        MPI_Win_unlock(1, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    check(operation, turn, warm + n);
    MPI_Win_unlock(rank, win);
    MPI_Win_free(&win);
    if (point->b >= CREATED)
        free(memory);
    free(mine);
}

static void finish(struct point *point)
{
    emit(point, "access_time", &point->series[0]);
}
