/* The programs of `mad bench` for MPI libraries: what they share. Each does step by step what the bench of the same name
 * in mad-bench-rs/src/experiments does over newmad, with MPI's calls: a change of one is a change of both.
 *
 * Arguments: CORES0 CORES1 SAMPLES POINT..., or `version`. CORESn: the cores that rank n may use, with commas; its main
 * thread stays on the first. A POINT is NUMBER:A:B:C; what A, B and C are, the program says. Rank 0 writes a line of JSON
 * per point and metric: {"Samples":[NUMBER,"metric",[1.5,...]]}, and {"Progress":1.0} when that was all: the reader
 * need not wait for MPI_Finalize, which some libraries do not return from. Everything else goes to standard error.
 *
 * A program is one file that includes this one and defines
 *   THREADS                         the level of thread support that it asks for
 *   BLOCKS                          into how many blocks its samples are divided, if not ten
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

enum { DATA = 1, RECORD = 2, LEAST = 20 };

struct series {
    double *values;
    long n, room;
};

struct point {
    long number, a, b, c;
    int64_t spent; /* for programs whose points may take long */
    struct series series[6];
};

static int rank;
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

static void emit(const struct point *point, const char *metric, const struct series *series)
{
    if (rank != 0 || series->n == 0)
        return;
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

static void keep_to(char *cores)
{
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_ZERO(&all_cores);
    for (char *core = strtok(cores, ","); core; core = strtok(NULL, ",")) {
        CPU_SET(atoi(core), &all_cores);
        if (CPU_COUNT(&first) == 0)
            CPU_SET(atoi(core), &first);
    }
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
    if (argc < 5)
        fail("arguments: CORES0 CORES1 SAMPLES NUMBER:A:B:C...");
    int provided, size;
    MPI_Init_thread(&argc, &argv, THREADS, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2)
        fail("this takes two processes");
    if (provided < THREADS)
        fail("the library was built without the support for threads that this takes");
    keep_to(argv[1 + rank]);
    long samples = atol(argv[3]), points = argc - 4;
    struct point *list = allocate((size_t)points * sizeof *list);
    for (long i = 0; i < points; i++)
        if (sscanf(argv[4 + i], "%ld:%ld:%ld:%ld", &list[i].number, &list[i].a, &list[i].b, &list[i].c) != 4)
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
    if (rank == 0) {
        puts("{\"Progress\":1.0}");
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
