/* Two ranks compute, and what they wait for comes meanwhile from two others that do not: ranks 0 and 1, and the quiet ranks 2
 * and 3, which send to them and are mostly asleep. A step: ranks 0 and 1 post WINDOW receives and tell their quiet rank to
 * send; they compute, rank 0 longer than rank 1; they wait for their messages, and for each other.
 * A: bytes of a message. B: microseconds that rank 1 computes. C: how much longer rank 0 computes, from 1 on; 16 more: instead of
 * the messages an allreduce of A bytes over all four, begun before the computation by MPI_Iallreduce; 32 more: the same by
 * hand, in two exchanges, of which the second can begin in a call only.
 *
 * wait_time is what rank 0 waits once it has computed: it comes last, so it need not wait for rank 1. Where the library counts by
 * whom messages are found (MPI_T variables newmad_found_...), the shares of those of this process are told, too. */
#define _GNU_SOURCE
#define THREADS MPI_THREAD_SINGLE
#define RANKS 4
#define BLOCKS 5
#define BY_HAND "200", "0:8192:1000:1", "0:8192:1000:2", "0:65536:1000:1", "0:65536:1000:2", "0:65536:1000:4", \
    "0:65536:1000:18", "0:65536:1000:34"
#include "peer.h"
#include "spin.h"

enum { WINDOW = 8, GO = 3, SYNC = 4, QUIET_US = 200, SCHEDULED = 1, BY_HAND_TOO = 2 };
enum { WAIT, COMPUTE, TOTAL, TIMES };
enum { OWN, NEAR, FAR, ELSEWHERE, DISTANCES };
enum { FOUND = TIMES, POINTS_OF_DETECTION = 6 };

/* As the variables have them: newmad_found_POINT_DISTANCE. */
static const char *const places[POINTS_OF_DETECTION] = {"wait", "call", "switch", "idle", "tick", "block"};
static const char *const distances[DISTANCES] = {"own", "near", "far", "elsewhere"};
static MPI_T_pvar_session tools;
static MPI_T_pvar_handle handles[POINTS_OF_DETECTION][DISTANCES];
static unsigned long long before[POINTS_OF_DETECTION][DISTANCES];
static int counts = -1;

static long count(const struct point *point, long samples)
{
    (void)point;
    return samples;
}

/* Finds the variables, if there are such. */
static void find_counters(void)
{
    int provided;
    counts = 0;
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) || MPI_T_pvar_session_create(&tools))
        return;
    for (int p = 0; p < POINTS_OF_DETECTION; p++)
        for (int d = 0; d < DISTANCES; d++) {
            char name[64];
            int index, n;
            snprintf(name, sizeof name, "newmad_found_%s_%s", places[p], distances[d]);
            if (MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index)
                || MPI_T_pvar_handle_alloc(tools, index, NULL, &handles[p][d], &n))
                return;
        }
    counts = 1;
}

static unsigned long long found(int p, int d)
{
    unsigned long long value = 0;
    MPI_T_pvar_read(tools, handles[p][d], &value);
    return value;
}

static void begin_counting(void)
{
    for (int p = 0; p < POINTS_OF_DETECTION; p++)
        for (int d = 0; d < DISTANCES; d++)
            before[p][d] = found(p, d);
}

/* Of all messages that were found since then: the share of each distance, and of each point. */
static void end_counting(struct point *point)
{
    double at[POINTS_OF_DETECTION] = {0}, far[DISTANCES] = {0}, all = 0;
    for (int p = 0; p < POINTS_OF_DETECTION; p++)
        for (int d = 0; d < DISTANCES; d++) {
            double more = (double)(found(p, d) - before[p][d]);
            at[p] += more;
            far[d] += more;
            all += more;
        }
    if (all == 0)
        return;
    for (int d = 0; d < DISTANCES; d++)
        sample(&point->series[FOUND + d], far[d] / all);
    for (int p = 0; p < POINTS_OF_DETECTION; p++)
        sample(&point->series[FOUND + DISTANCES + p], at[p] / all);
}

/* Waits as a rank does that is mostly asleep. */
static void wait_quietly(int n, MPI_Request *requests)
{
    int done = 0;
    for (;;) {
        MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE);
        if (done)
            return;
        usleep(QUIET_US);
    }
}

static void check(const char *buffer, long size, int mark)
{
    if (buffer[0] != (char)mark || buffer[size - 1] != (char)mark)
        fail("a message holds something else than was sent");
}

/* A quiet rank's part. */
static void serve(const struct point *point, char *buffer, double *sums, double *given, int turn)
{
    MPI_Request requests[WINDOW];
    int size = (int)point->a, peer = rank - 2, n = size / 8;
    switch (point->c / 16) {
    case 0:
        MPI_Irecv(NULL, 0, MPI_BYTE, peer, GO, MPI_COMM_WORLD, requests);
        wait_quietly(1, requests);
        for (int i = 0; i < WINDOW; i++) {
            buffer[(long)i * size] = buffer[(long)(i + 1) * size - 1] = (char)(turn + i);
            MPI_Isend(buffer + (long)i * size, size, MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[i]);
        }
        wait_quietly(WINDOW, requests);
        return;
    case SCHEDULED:
        MPI_Iallreduce(given, sums, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, requests);
        wait_quietly(1, requests);
        return;
    default:
        for (int round = 0; round < 2; round++) {
            int other = round == 0 ? rank ^ 2 : rank ^ 1;
            MPI_Irecv(buffer, size, MPI_BYTE, other, DATA + round, MPI_COMM_WORLD, &requests[0]);
            MPI_Isend(given, size, MPI_BYTE, other, DATA + round, MPI_COMM_WORLD, &requests[1]);
            wait_quietly(2, requests);
            for (int i = 0; i < n; i++)
                given[i] += ((double *)buffer)[i];
        }
    }
}

static void once(struct point *point, char *buffer, double *sums, double *given, int turn, int counted)
{
    MPI_Request requests[WINDOW + 1];
    int size = (int)point->a, n = size / 8, kind = (int)point->c / 16;
    for (int i = 0; kind && i < n; i++)
        given[i] = rank + 1 + turn;
    if (rank >= 2) {
        serve(point, buffer, sums, given, turn);
        return;
    }
    int64_t start = now_ns();
    if (kind == 0) {
        for (int i = 0; i < WINDOW; i++)
            MPI_Irecv(buffer + (long)i * size, size, MPI_BYTE, rank + 2, i, MPI_COMM_WORLD, &requests[i]);
        MPI_Isend(NULL, 0, MPI_BYTE, rank + 2, GO, MPI_COMM_WORLD, &requests[WINDOW]);
    } else if (kind == SCHEDULED) {
        MPI_Iallreduce(given, sums, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, requests);
    } else {
        MPI_Irecv(buffer, size, MPI_BYTE, rank ^ 2, DATA, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(given, size, MPI_BYTE, rank ^ 2, DATA, MPI_COMM_WORLD, &requests[1]);
    }
    int64_t begun = now_ns();
    steps(steps_of(point->b * (rank == 0 ? point->c % 16 : 1)));
    int64_t computed = now_ns();
    if (kind == 0) {
        MPI_Waitall(WINDOW + 1, requests, MPI_STATUSES_IGNORE);
    } else if (kind == SCHEDULED) {
        MPI_Wait(requests, MPI_STATUS_IGNORE);
    } else {
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < n; i++)
            given[i] += ((double *)buffer)[i];
        MPI_Irecv(buffer, size, MPI_BYTE, rank ^ 1, DATA + 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(given, size, MPI_BYTE, rank ^ 1, DATA + 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < n; i++)
            sums[i] = given[i] + ((double *)buffer)[i];
    }
    int64_t waited = now_ns();
    MPI_Sendrecv(NULL, 0, MPI_BYTE, 1 - rank, SYNC, NULL, 0, MPI_BYTE, 1 - rank, SYNC, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    int64_t over = now_ns();
    for (int i = 0; kind == 0 && i < WINDOW; i++)
        check(buffer + (long)i * size, size, turn + i);
    if (kind && (sums[0] != 10 + 4 * turn || sums[n - 1] != 10 + 4 * turn))
        fail("a sum is wrong");
    if (rank == 0 && counted) {
        sample(&point->series[WAIT], (double)(waited - computed) / 1000.0);
        sample(&point->series[COMPUTE], (double)(computed - begun) / 1000.0);
        sample(&point->series[TOTAL], (double)(over - start) / 1000.0);
    }
}

static void block(struct point *point, long warm, long n)
{
    static int turn;
    if (ranks != RANKS)
        fail("this takes 4 processes");
    if (point->a < 8 || point->c % 16 < 1)
        fail("A is 8 or more, C is 1 or more");
    if (rank == 0 && counts < 0)
        find_counters();
    /* One after the other: the two that compute share no core then. */
    for (int of = 0; of < RANKS; of++) {
        if (of == rank)
            calibrate();
        MPI_Barrier(MPI_COMM_WORLD);
    }
    char *buffer = allocate((size_t)point->a * WINDOW);
    double *sums = allocate((size_t)point->a), *given = allocate((size_t)point->a);
    for (long i = 0; i < warm + n; i++) {
        if (i == warm && rank == 0 && counts == 1)
            begin_counting();
        turn++;
        once(point, buffer, sums, given, turn, i >= warm);
    }
    if (rank == 0 && counts == 1)
        end_counting(point);
    free(buffer);
    free(sums);
    free(given);
}

static void finish(struct point *point)
{
    static const char *const names[] = {
        "wait_time",  "compute_time", "total_time",   "found_own",     "found_near",  "found_far",
        "found_elsewhere", "found_in_wait", "found_in_call", "found_at_switch", "found_idle", "found_at_tick", "found_blocking",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        emit(point, names[i], &point->series[i]);
}
