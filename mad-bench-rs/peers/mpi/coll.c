/* Collectives. A sample is the time from the call to the return at the rank that took longest, after a barrier.
 * A: bytes; reductions are of doubles, as many as hold so many bytes. B: number of the operation in `names`.
 * C: microseconds that all ranks compute between starting the non-blocking operation and waiting for it; 0: the blocking one.
 *
 * What is received is checked at the first and at the last sample of a block. */
#define _GNU_SOURCE
#define THREADS MPI_THREAD_SINGLE
#define BLOCKS 5
#define RANKS 64
#define SIZES(B) "0:8:" B ":0", "0:1024:" B ":0", "0:65536:" B ":0", "0:1048576:" B ":0"
#define BY_HAND "1000", "0:1:0:0", SIZES("1"), SIZES("2"), SIZES("3"), SIZES("6"), SIZES("7")
#include "peer.h"
#include "spin.h"

enum { BARRIER, BCAST, REDUCE, ALLREDUCE, GATHER, SCATTER, ALLGATHER, ALLTOALL, REDUCE_SCATTER, SCAN, OPERATIONS };
static const char *const names[OPERATIONS] = {"barrier", "bcast",     "reduce",   "allreduce",      "gather",
                                              "scatter", "allgather", "alltoall", "reduce_scatter", "scan"};
enum { OPERATION, ALL, COMPUTING };

/* Of the point under way: bytes; doubles, rounded up; doubles of a part. */
static long bytes, doubles, part_doubles;
static char *one, *all, *result;

static long count(const struct point *point, long samples)
{
    long least = samples < 5 ? samples : 5, n = samples * 65536 / (point->a > 65536 ? point->a : 65536);
    return n < least ? least : n;
}

static void blocking(long operation)
{
    int n = (int)bytes, d = (int)doubles, part = (int)part_doubles;
    MPI_Comm world = MPI_COMM_WORLD;
    switch (operation) {
    case BARRIER:
        MPI_Barrier(world);
        break;
    case BCAST:
        MPI_Bcast(one, n, MPI_BYTE, 0, world);
        break;
    case REDUCE:
        MPI_Reduce(one, result, d, MPI_DOUBLE, MPI_SUM, 0, world);
        break;
    case ALLREDUCE:
        MPI_Allreduce(one, result, d, MPI_DOUBLE, MPI_SUM, world);
        break;
    case GATHER:
        MPI_Gather(one, n, MPI_BYTE, result, n, MPI_BYTE, 0, world);
        break;
    case SCATTER:
        MPI_Scatter(all, n, MPI_BYTE, result, n, MPI_BYTE, 0, world);
        break;
    case ALLGATHER:
        MPI_Allgather(one, n, MPI_BYTE, result, n, MPI_BYTE, world);
        break;
    case ALLTOALL:
        MPI_Alltoall(all, n, MPI_BYTE, result, n, MPI_BYTE, world);
        break;
    case REDUCE_SCATTER:
        MPI_Reduce_scatter_block(all, result, part, MPI_DOUBLE, MPI_SUM, world);
        break;
    default:
        MPI_Scan(one, result, d, MPI_DOUBLE, MPI_SUM, world);
    }
}

static void start(long operation, MPI_Request *request)
{
    int n = (int)bytes, d = (int)doubles, part = (int)part_doubles;
    MPI_Comm world = MPI_COMM_WORLD;
    switch (operation) {
    case BARRIER:
        MPI_Ibarrier(world, request);
        break;
    case BCAST:
        MPI_Ibcast(one, n, MPI_BYTE, 0, world, request);
        break;
    case REDUCE:
        MPI_Ireduce(one, result, d, MPI_DOUBLE, MPI_SUM, 0, world, request);
        break;
    case ALLREDUCE:
        MPI_Iallreduce(one, result, d, MPI_DOUBLE, MPI_SUM, world, request);
        break;
    case GATHER:
        MPI_Igather(one, n, MPI_BYTE, result, n, MPI_BYTE, 0, world, request);
        break;
    case SCATTER:
        MPI_Iscatter(all, n, MPI_BYTE, result, n, MPI_BYTE, 0, world, request);
        break;
    case ALLGATHER:
        MPI_Iallgather(one, n, MPI_BYTE, result, n, MPI_BYTE, world, request);
        break;
    case ALLTOALL:
        MPI_Ialltoall(all, n, MPI_BYTE, result, n, MPI_BYTE, world, request);
        break;
    case REDUCE_SCATTER:
        MPI_Ireduce_scatter_block(all, result, part, MPI_DOUBLE, MPI_SUM, world, request);
        break;
    default:
        MPI_Iscan(one, result, d, MPI_DOUBLE, MPI_SUM, world, request);
    }
}

/* What rank `from` gives: double or byte `i` of its part `part`, at a turn. */
static int given(int from, int part, long i, long turn)
{
    return (int)((from * 5 + part * 3 + i + turn) % 97);
}

static int is_reduction(long operation)
{
    return operation == REDUCE || operation == ALLREDUCE || operation == REDUCE_SCATTER || operation == SCAN;
}

static void fill(long operation, long turn)
{
    for (int part = 0; part < ranks; part++)
        if (is_reduction(operation)) {
            for (long i = 0; i < doubles; i++)
                ((double *)one)[i] = given(rank, 0, i, turn);
            for (long i = 0; i < part_doubles; i++)
                ((double *)all)[part * part_doubles + i] = given(rank, part, i, turn);
        } else {
            for (long i = 0; i < bytes; i++) {
                one[i] = (char)given(rank, 0, i, turn);
                all[part * bytes + i] = (char)given(rank, part, i, turn);
            }
        }
}

/* The sum of what ranks 0 to `last` give. */
static double sum(int last, int part, long i, long turn)
{
    double sum = 0;
    for (int from = 0; from <= last; from++)
        sum += given(from, part, i, turn);
    return sum;
}

static int is_right(long operation, long turn)
{
    const double *sums = (const double *)result;
    int parts = operation == ALLGATHER || operation == ALLTOALL || operation == GATHER ? ranks : 1;
    if (operation == BARRIER || ((operation == REDUCE || operation == GATHER) && rank != 0))
        return 1;
    if (is_reduction(operation)) {
        int scattered = operation == REDUCE_SCATTER, last = operation == SCAN ? rank : ranks - 1;
        for (long i = 0; i < (scattered ? part_doubles : doubles); i++)
            if (sums[i] != sum(last, scattered ? rank : 0, i, turn))
                return 0;
        return 1;
    }
    const char *found = operation == BCAST ? one : result;
    for (int part = 0; part < parts; part++) {
        int from = operation == BCAST || operation == SCATTER ? 0 : part;
        int of = operation == SCATTER || operation == ALLTOALL ? rank : 0;
        for (long i = 0; i < bytes; i++)
            if (found[part * bytes + i] != (char)given(from, of, i, turn))
                return 0;
    }
    return 1;
}

static void check(long operation, long turn)
{
    if (is_right(operation, turn))
        return;
    fprintf(stderr, "rank %d: %s of %ld bytes: wrong result\n", rank, names[operation], bytes);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Nanoseconds from the call to the return, and of these in the computation. */
static void once(long operation, long computation, double times[2])
{
    MPI_Barrier(MPI_COMM_WORLD);
    int64_t begun = now_ns(), computed = 0;
    if (computation) {
        MPI_Request request;
        start(operation, &request);
        computed = now_ns();
        steps(computation);
        computed = now_ns() - computed;
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        blocking(operation);
    }
    times[0] = (double)(now_ns() - begun);
    times[1] = (double)computed;
}

/* Samples what it took at the rank with the longest wait, each time. */
static void sample_slowest(struct point *point, const double *times, long n)
{
    double *from_all = allocate((size_t)(2 * n * ranks) * sizeof(double));
    MPI_Gather(times, (int)(2 * n), MPI_DOUBLE, from_all, (int)(2 * n), MPI_DOUBLE, 0, MPI_COMM_WORLD);
    for (long i = 0; rank == 0 && i < n; i++) {
        const double *slowest = from_all + 2 * i;
        for (int other = 1; other < ranks; other++) {
            const double *candidate = from_all + 2 * (other * n + i);
            if (candidate[0] - candidate[1] > slowest[0] - slowest[1])
                slowest = candidate;
        }
        if (point->c) {
            sample(&point->series[ALL], slowest[0] / 1000.0);
            sample(&point->series[COMPUTING], slowest[1] / 1000.0);
        } else {
            sample(&point->series[OPERATION], slowest[0]);
        }
    }
    free(from_all);
}

static void block(struct point *point, long warm, long n)
{
    long operation = point->b;
    if (point->a < 1 || point->a > 1 << 26 || operation < 0 || operation >= OPERATIONS || point->c < 0)
        fail("coll: 1 to 2^26 bytes, and one of ten operations");
    bytes = point->a;
    doubles = (bytes + 7) / 8;
    part_doubles = (doubles + ranks - 1) / ranks;
    size_t room = (size_t)(doubles + ranks) * 8;
    one = allocate(room);
    all = allocate(room * (size_t)ranks);
    result = allocate(room * (size_t)ranks);
    calibrate();
    long computation = steps_of(point->c);
    double unused[2], *times = allocate((size_t)(2 * n) * sizeof(double));
    fill(operation, 0);
    once(operation, computation, unused);
    check(operation, 0);
    for (long turn = 0; turn < warm + n; turn++) {
        int last = turn + 1 == warm + n;
        if (last)
            fill(operation, turn);
        once(operation, computation, turn < warm ? unused : times + 2 * (turn - warm));
        if (last)
            check(operation, turn);
    }
    sample_slowest(point, times, n);
    free(times), free(one), free(all), free(result);
}

static void finish(struct point *point)
{
    if (by_hand && rank == 0)
        printf("%-9s ", names[point->b]);
    emit(point, "op_time", &point->series[OPERATION]);
    emit(point, "total_time", &point->series[ALL]);
    emit(point, "compute_time", &point->series[COMPUTING]);
}
