/* The programs of `mad bench` for MPI libraries: what they share. Each does step by step what the bench of the same name
 * in mad-bench-rs/src/experiments does over newmad, with MPI's calls: a change of one is a change of both.
 *
 * Arguments: CORES SAMPLES POINT..., or `version`, or nothing. CORES: a list of cores with commas for each rank, with
 * slashes between them (0,1/2,3); the main thread of a rank stays on the first of its list. Where there are more ranks
 * than lists, rank n takes list n modulo their number. `any` leaves the ranks where the launcher put them. A POINT is
 * NUMBER:A:B:C; what A, B and C are, the program says. Rank 0 writes a line of JSON per point and metric:
 * {"Samples":[NUMBER,"metric",[1.5,...]]}, and {"Progress":1.0} when that was all: the reader need not wait for
 * MPI_Finalize, which some libraries do not return from. Everything else goes to standard error. Without arguments a
 * program measures BY_HAND, and rank 0 writes a line of text per point and metric.
 *
 * A program is one file that includes this one and defines
 *   THREADS                         the level of thread support that it asks for
 *   RANKS                           the most processes that it takes, if it takes 1 to so many, and not just two
 *   BLOCKS                          into how many blocks its samples are divided, if not ten
 *   BY_HAND                         SAMPLES and POINTs for a run without arguments, each a string with a comma behind
 *   count(point, samples)           how often its block is repeated in all
 *   block(point, warm, n)           n samples, after warm ones that do not count
 *   finish(point)                   emits what was measured
 * Samples are taken in blocks, point after point, so that a drift of the machine hits all alike. */

#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef BLOCKS
#define BLOCKS 10
#endif

#ifdef RANKS
#define RANKS_LEAST 1
#else
#define RANKS 2
#define RANKS_LEAST 2
#endif

enum { DATA = 1, RECORD = 2, LEAST = 20 };

struct series {
    double *values;
    long n, room;
};

struct point {
    long number, a, b, c;
    int64_t spent; /* for programs whose points may take long */
    struct series series[13];
};

static int rank, ranks;
static int by_hand;
static cpu_set_t all_cores;

static int64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

static void fail(const char *why)
{
    fprintf(stderr, "%s\n", why);
    exit(1);
}

static void *allocate(size_t n)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 64, n ? n : 1))
        fail("no memory");
    memset(memory, 0, n);
    return memory;
}

static void sample(struct series *series, double value)
{
    if (series->n == series->room) {
        series->room = series->room ? 2 * series->room : 256;
        series->values = realloc(series->values, (size_t)series->room * sizeof(double));
        if (!series->values)
            fail("no memory");
    }
    series->values[series->n++] = value;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The line for a reader who typed the program's name. */
static void summarise(const struct point *point, const char *metric, const struct series *series)
{
    double *sorted = allocate((size_t)series->n * sizeof(double)), sum = 0;
    memcpy(sorted, series->values, (size_t)series->n * sizeof(double));
    qsort(sorted, (size_t)series->n, sizeof(double), by_value);
    for (long i = 0; i < series->n; i++)
        sum += sorted[i];
    printf("%ld:%ld:%ld  %-16s n %ld  median %.2f  p99 %.2f  largest %.2f  sum %.0f\n", point->a, point->b, point->c,
           metric, series->n, sorted[series->n / 2], sorted[series->n * 99 / 100], sorted[series->n - 1], sum);
    free(sorted);
}

static void emit(const struct point *point, const char *metric, const struct series *series)
{
    if (rank != 0 || series->n == 0)
        return;
    if (by_hand) {
        summarise(point, metric, series);
        return;
    }
    printf("{\"Samples\":[%ld,\"%s\",[", point->number, metric);
    for (long i = 0; i < series->n; i++)
        printf("%s%.4f", i ? "," : "", series->values[i]);
    printf("]]}\n");
}

/* As often as makes the bytes of `samples` messages of 4 KiB. */
__attribute__((unused)) static long by_bytes(long samples, long size)
{
    long least = samples < LEAST ? samples : LEAST, n = samples * 4096 / (size > 4096 ? size : 4096);
    return n < least ? least : n;
}

static long count(const struct point *point, long samples);
static void block(struct point *point, long warm, long n);
static void finish(struct point *point);

/* Keeps this rank to its list of cores; see CORES above. */
static void keep_to(const char *lists)
{
    CPU_ZERO(&all_cores);
    if (!strcmp(lists, "any")) {
        sched_getaffinity(0, sizeof all_cores, &all_cores);
        return;
    }
    int count = 1;
    for (const char *at = lists; *at; at++)
        count += *at == '/';
    for (int skip = rank % count; skip > 0; skip--)
        lists = strchr(lists, '/') + 1;
    char *list = strndup(lists, strcspn(lists, "/"));
    cpu_set_t first;
    CPU_ZERO(&first);
    for (char *core = strtok(list, ","); core; core = strtok(NULL, ",")) {
        CPU_SET(atoi(core), &all_cores);
        if (CPU_COUNT(&first) == 0)
            CPU_SET(atoi(core), &first);
    }
    free(list);
    sched_setaffinity(0, sizeof first, &first); /* a refusal leaves it where the kernel puts it */
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "version")) {
        char text[MPI_MAX_LIBRARY_VERSION_STRING];
        int length;
        MPI_Get_library_version(text, &length);
        text[strcspn(text, ",\n")] = 0;
        puts(text);
        return 0;
    }
#ifdef BY_HAND
    static char *defaults[] = {"", "any", BY_HAND};
    if (argc == 1) {
        argc = sizeof defaults / sizeof *defaults;
        argv = defaults;
        by_hand = 1;
    }
#endif
    if (argc < 4)
        fail("arguments: CORES SAMPLES NUMBER:A:B:C...");
    int provided;
    MPI_Init_thread(NULL, NULL, THREADS, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks < RANKS_LEAST || ranks > RANKS) {
        fprintf(stderr, "this takes %d to %d processes, and there are %d\n", RANKS_LEAST, RANKS, ranks);
        exit(1);
    }
    if (provided < THREADS)
        fail("the library was built without the support for threads that this takes");
    keep_to(argv[1]);
    long samples = atol(argv[2]), points = argc - 3;
    struct point *list = allocate((size_t)points * sizeof *list);
    for (long i = 0; i < points; i++)
        if (sscanf(argv[3 + i], "%ld:%ld:%ld:%ld", &list[i].number, &list[i].a, &list[i].b, &list[i].c) != 4)
            fail("a point is NUMBER:A:B:C");
    long blocks = samples < BLOCKS ? samples : BLOCKS;
    for (long b = 0; b < blocks; b++)
        for (long i = 0; i < points; i++) {
            long all = count(&list[i], samples), n = all * (b + 1) / blocks - all * b / blocks;
            MPI_Barrier(MPI_COMM_WORLD);
            block(&list[i], 2 + n / 10, n);
        }
    for (long i = 0; i < points; i++)
        finish(&list[i]);
    if (rank == 0 && !by_hand)
        puts("{\"Progress\":1.0}");
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
