/* Ping-pong of two processes in which threads compute and never call the library. A: computing threads of each process.
 * B: bytes of the message. C: 1, with messages; 0, the computation alone. The threads are the kernel's: an MPI program has
 * no others. The samples of a point are those of one window of time. */
#define _GNU_SOURCE
#define THREADS MPI_THREAD_FUNNELED
#define BLOCKS 1
#include <pthread.h>
#include <stdatomic.h>
#include "peer.h"
#include "spin.h"

enum { UNIT_US = 50, START_US = 30000, UNIT_PAUSE_US = 200, ALONE_US = 300000 };
enum { TRIP, COMPUTE, TOTAL, CPU };
static const int64_t WINDOW_NS = 500000000, UNIT_LIMIT_NS = 30000000000;

/* What one thread has done so far. A cache line of its own. */
struct done {
    _Alignas(128) _Atomic int64_t units;
    _Atomic int64_t cpu_ns;
};

struct crunch {
    long threads;
    struct done *done;
    pthread_t *handles;
};

struct reading {
    int64_t units, compute_ns, process_ns, wall_ns;
};

static atomic_int stop;

static long count(const struct point *point, long samples)
{
    (void)point;
    return samples;
}

static void *compute(void *arg)
{
    struct done *done = arg;
    int64_t start = read_clock(CLOCK_THREAD_CPUTIME_ID), units = 0;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        steps(steps_of(UNIT_US));
        units++;
        atomic_store_explicit(&done->cpu_ns, read_clock(CLOCK_THREAD_CPUTIME_ID) - start, memory_order_relaxed);
        atomic_store_explicit(&done->units, units, memory_order_relaxed);
    }
    return NULL;
}

static struct crunch begin(long threads)
{
    struct crunch crunch = {threads, NULL, allocate((size_t)threads * sizeof(pthread_t))};
    if (posix_memalign((void **)&crunch.done, 128, (size_t)(threads + 1) * sizeof(struct done)))
        fail("no memory");
    memset(crunch.done, 0, (size_t)(threads + 1) * sizeof(struct done));
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setaffinity_np(&attributes, sizeof all_cores, &all_cores);
    atomic_store(&stop, 0);
    for (long i = 0; i < threads; i++)
        if (pthread_create(&crunch.handles[i], &attributes, compute, &crunch.done[i]))
            fail("a thread could not be started");
    pthread_attr_destroy(&attributes);
    return crunch;
}

static void end(struct crunch *crunch)
{
    atomic_store(&stop, 1);
    for (long i = 0; i < crunch->threads; i++)
        pthread_join(crunch->handles[i], NULL);
    free(crunch->handles);
    free(crunch->done);
}

static struct reading read_all(const struct crunch *crunch)
{
    struct reading all = {0, 0, read_clock(CLOCK_PROCESS_CPUTIME_ID), now_ns()};
    for (long i = 0; i < crunch->threads; i++) {
        all.units += atomic_load_explicit(&crunch->done[i].units, memory_order_relaxed);
        all.compute_ns += atomic_load_explicit(&crunch->done[i].cpu_ns, memory_order_relaxed);
    }
    return all;
}

/* Trips for as long as a window lasts; without computing threads, n. Rank 0 says which is the last one. */
static void play(struct point *point, char *buffer, int64_t start, long n)
{
    int size = (int)point->b;
    int64_t before = now_ns();
    for (long i = 1; rank == 0; i++) {
        int last = point->a == 0 ? i == n : before - start > WINDOW_NS;
        buffer[0] = (char)last;
        MPI_Send(buffer, size, MPI_BYTE, 1, DATA, MPI_COMM_WORLD);
        MPI_Recv(buffer, size, MPI_BYTE, 1, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        int64_t now = now_ns();
        sample(&point->series[TRIP], (double)(now - before) / 2000.0);
        before = now;
        if (last)
            return;
    }
    while (buffer[0] == 0) {
        MPI_Recv(buffer, size, MPI_BYTE, 0, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(buffer, size, MPI_BYTE, 0, DATA, MPI_COMM_WORLD);
    }
}

static struct reading window(struct point *point, const struct crunch *crunch, char *buffer, long n)
{
    usleep(START_US);
    MPI_Barrier(MPI_COMM_WORLD);
    struct reading start = read_all(crunch), now;
    if (point->c)
        play(point, buffer, start.wall_ns, n);
    else
        usleep(ALONE_US);
    /* On a machine that is busy with other things a short window may pass without one unit of work. */
    for (now = read_all(crunch); crunch->threads && now.units == start.units; now = read_all(crunch)) {
        if (now.wall_ns - start.wall_ns > UNIT_LIMIT_NS)
            fail("the computing threads got no CPU time: the machine is too busy");
        usleep(UNIT_PAUSE_US);
    }
    now.units -= start.units;
    now.compute_ns -= start.compute_ns;
    now.process_ns -= start.process_ns;
    now.wall_ns -= start.wall_ns;
    return now;
}

static void report(struct point *point, const struct reading process[2])
{
    int64_t units = process[0].units + process[1].units, rest = 0;
    for (int i = 0; i < 2; i++) {
        if (process[i].units)
            sample(&point->series[COMPUTE], (double)process[i].compute_ns / 1000.0 / (double)process[i].units);
        int64_t other = process[i].process_ns - process[i].compute_ns;
        rest += other > 0 ? other : 0;
    }
    if (units)
        sample(&point->series[TOTAL], (double)(process[0].wall_ns + process[1].wall_ns) / 2000.0 / (double)units);
    if (point->series[TRIP].n)
        sample(&point->series[CPU], (double)rest / 2000.0 / (double)point->series[TRIP].n);
}

static void block(struct point *point, long warm, long n)
{
    char *buffer = allocate((size_t)point->b);
    struct reading process[2];
    (void)warm;
    calibrate();
    /* The thread that communicates may use all cores of its process, as newmad's may. */
    sched_setaffinity(0, sizeof all_cores, &all_cores);
    struct crunch crunch = begin(point->a);
    process[0] = window(point, &crunch, buffer, n);
    end(&crunch);
    if (rank != 0) {
        MPI_Send(&process[0], sizeof process[0], MPI_BYTE, 0, RECORD, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&process[1], sizeof process[1], MPI_BYTE, 1, RECORD, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        report(point, process);
    }
    free(buffer);
}

static void finish(struct point *point)
{
    emit(point, "half_round_trip", &point->series[TRIP]);
    emit(point, "compute_time", &point->series[COMPUTE]);
    emit(point, "total_time", &point->series[TOTAL]);
    emit(point, "cpu_time", &point->series[CPU]);
}
