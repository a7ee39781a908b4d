/* A sort of integers by samples: the ranks agree on where parts begin (allgather of samples), tell each other how many keys
 * come (alltoall), exchange them (alltoallv), and sort what they got. A step sorts another set. A: keys of a rank.
 * B: samples that a rank gives. C: not used.
 *
 * In every step each rank's keys are in order and begin after the last of the rank before it; their number and sum, and
 * the sum of their hashes, are those of the set. */
#define _GNU_SOURCE
#define RANKS 16
#define BY_HAND "1500", "0:32768:64:0"
#include "app.h"

enum { DIGIT = 11, DIGITS = 1 << DIGIT };

static uint32_t *keys, *scratch, *sorted, *samples_in;
static size_t room;

static int by_key(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Sorts by three digits; `from` holds them in order at the end, `to` is needed meanwhile and at the end exchanged. */
static void radix(uint32_t **from, uint32_t **to, long n)
{
    for (int shift = 0; shift < 32; shift += DIGIT) {
        long starts[DIGITS + 1] = {0};
        for (long i = 0; i < n; i++)
            starts[((*from)[i] >> shift & (DIGITS - 1)) + 1]++;
        for (int d = 0; d < DIGITS; d++)
            starts[d + 1] += starts[d];
        for (long i = 0; i < n; i++)
            (*to)[starts[(*from)[i] >> shift & (DIGITS - 1)]++] = (*from)[i];
        uint32_t *swapped = *from;
        *from = *to;
        *to = swapped;
    }
}

/* Key `i` of this rank in step `s`: the middle is drawn more often than the ends. */
static uint32_t key(long s, long i)
{
    uint64_t drawn = mix(((uint64_t)s << 40) + ((uint64_t)rank << 32) + (uint64_t)i);
    return (uint32_t)(drawn >> 33) + (uint32_t)(drawn & 0x7fffffff);
}

static void begin(struct point *point)
{
    if (point->a < 1 || point->a > 1 << 24 || point->b < 1 || point->b > point->a)
        fail("sort: a rank has 1 to 2^24 keys, and gives a sample at least and no more than it has keys");
    /* All keys could come to one rank. */
    room = (size_t)point->a * (size_t)ranks;
    keys = allocate((size_t)point->a * 4);
    scratch = allocate(room * 4);
    sorted = allocate(room * 4);
    samples_in = allocate((size_t)(point->b * ranks) * 4);
}

/* The sums over the ranks of the number of keys, the keys, and their hashes. */
static void sums(const uint32_t *of, long n, uint64_t all[3])
{
    uint64_t mine[3] = {(uint64_t)n, 0, 0};
    for (long i = 0; i < n; i++) {
        mine[1] += of[i];
        mine[2] += mix(of[i]);
    }
    MPI_Allreduce(mine, all, 3, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
}

static void check(const uint64_t set[3], long n)
{
    uint64_t got[3];
    sums(sorted, n, got);
    if (memcmp(set, got, sizeof got))
        wrong("keys were lost, doubled or changed");
    for (long i = 1; i < n; i++)
        if (sorted[i - 1] > sorted[i])
            wrong("keys out of order");
    /* The largest key of this rank and of those before it, to the next: a rank may have none. */
    uint32_t largest = n ? sorted[n - 1] : 0, before = 0;
    MPI_Exscan(&largest, &before, 1, MPI_UINT32_T, MPI_MAX, MPI_COMM_WORLD);
    if (rank > 0 && n && sorted[0] < before)
        wrong("a rank's keys do not follow those of the ranks before it");
}

static void step(struct point *point, long s)
{
    long n = point->a, given = point->b;
    uint64_t set[3];
    checking();
    for (long i = 0; i < n; i++)
        keys[i] = key(s, i);
    sums(keys, n, set);
    checked();

    uint32_t mine[given];
    for (long i = 0; i < given; i++)
        mine[i] = keys[i * n / given];
    enter();
    MPI_Allgather(mine, (int)given, MPI_UINT32_T, samples_in, (int)given, MPI_UINT32_T, MPI_COMM_WORLD);
    leave();
    qsort(samples_in, (size_t)(given * ranks), 4, by_key);

    int to[RANKS] = {0}, to_at[RANKS + 1] = {0}, from[RANKS], from_at[RANKS + 1] = {0}, filled[RANKS];
    uint8_t *part = (uint8_t *)sorted;
    for (long i = 0; i < n; i++) {
        int p = 0;
        while (p + 1 < ranks && keys[i] >= samples_in[given * (p + 1)])
            p++;
        part[i] = (uint8_t)p;
        to[p]++;
    }
    for (int p = 0; p < ranks; p++)
        to_at[p + 1] = (filled[p] = to_at[p]) + to[p];
    for (long i = 0; i < n; i++)
        scratch[filled[part[i]]++] = keys[i];
    enter();
    MPI_Alltoall(to, 1, MPI_INT, from, 1, MPI_INT, MPI_COMM_WORLD);
    for (int p = 0; p < ranks; p++)
        from_at[p + 1] = from_at[p] + from[p];
    MPI_Alltoallv(scratch, to, to_at, MPI_UINT32_T, sorted, from, from_at, MPI_UINT32_T, MPI_COMM_WORLD);
    leave();
    radix(&sorted, &scratch, from_at[ranks]);

    checking();
    check(set, from_at[ranks]);
    checked();
}

static void end(struct point *point)
{
    (void)point;
    free(keys), free(scratch), free(sorted), free(samples_in);
}
