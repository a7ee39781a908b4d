/* The small applications: what they share. Each computes, exchanges and agrees in steps, and checks what comes out. To be
 * included in place of peer.h, after RANKS and BY_HAND.
 *
 * A program defines
 *   begin(point)                    makes what the steps of a point need
 *   step(point, s)                  does step `s`; check what it made between `checking` and `checked`
 *   end(point)                      checks what can be checked only now, and frees
 * and puts `enter` and `leave` around its calls of the library.
 *
 * Metrics in microseconds per step: mpi_time in calls of the library, compute_time outside of them, total_time both.
 * The first steps decide how many follow: a point whose step takes long takes no more than LONGEST in all. */

#define THREADS MPI_THREAD_SINGLE
#define BLOCKS 1
#include "peer.h"

enum { IN_MPI, COMPUTING, IN_ALL, TIMES, TRIED = 4 };
/* In nanoseconds. */
static const double LONGEST = 4e9;

static int64_t entered, in_mpi, unchecked, in_checks;

/* The program's. */
static void begin(struct point *point);
static void step(struct point *point, long s);
static void end(struct point *point);

__attribute__((unused)) static void enter(void)
{
    entered = now_ns();
}

__attribute__((unused)) static void leave(void)
{
    in_mpi += now_ns() - entered;
}

/* Checks are not part of a step's time. */
__attribute__((unused)) static void checking(void)
{
    unchecked = now_ns();
}

__attribute__((unused)) static void checked(void)
{
    in_checks += now_ns() - unchecked;
}

/* A check that fails in one process ends all of them. */
__attribute__((unused)) static void wrong(const char *what)
{
    fprintf(stderr, "rank %d: wrong result: %s\n", rank, what);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Where part `part` of `all` things in `parts` parts begins. */
__attribute__((unused)) static long part_of(long all, int part, int parts)
{
    return all * part / parts;
}

/* Mixes the bits of a number: what the programs draw their data from. */
__attribute__((unused)) static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static long count(const struct point *point, long samples)
{
    (void)point;
    return samples;
}

static void timed(struct point *point, long s)
{
    in_mpi = in_checks = 0;
    int64_t begun = now_ns();
    step(point, s);
    double all = (double)(now_ns() - begun - in_checks) / 1000.0, calls = (double)in_mpi / 1000.0;
    sample(&point->series[IN_MPI], calls);
    sample(&point->series[COMPUTING], all - calls);
    sample(&point->series[IN_ALL], all);
}

static void block(struct point *point, long warm, long n)
{
    begin(point);
    long s = 0;
    /* The fastest: the first makes connections, and another process may take the core. */
    double mine = 1e18, slowest = 0;
    for (; s < TRIED; s++) {
        int64_t begun = now_ns();
        timed(point, s);
        double took = (double)(now_ns() - begun);
        mine = took < mine ? took : mine;
    }
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    long most = (long)(LONGEST / (slowest > 1 ? slowest : 1));
    n = n < most ? n : most > 1 ? most : 1;
    warm = warm < 2 + n / 10 ? warm : 2 + n / 10;
    for (long last = s + warm; s < last; s++)
        timed(point, s);
    for (int i = 0; i < TIMES; i++)
        point->series[i].n = 0;
    for (long last = s + n; s < last; s++)
        timed(point, s);
    end(point);
}

static void finish(struct point *point)
{
    static const char *const names[TIMES] = {"mpi_time", "compute_time", "total_time"};
    for (int i = 0; i < TIMES; i++)
        emit(point, names[i], &point->series[i]);
}
