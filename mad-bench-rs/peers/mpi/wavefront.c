/* A pipelined wavefront over a box: a rank has a column of the box, all planes deep, and computes a plane of it when the
 * borders of that plane have come from its neighbours before it, by blocking receives; it sends its own on to those behind
 * it by blocking sends. A step is a sweep; sweeps alternate between two opposite corners. A: side of the box across.
 * B: its planes. C: not used.
 *
 * Every cell is the sum of its three predecessors, in arithmetic modulo 2^32: a sweep with another value at the border
 * has a multiple of the same result, which each rank knows from computing the whole box by itself once. */
#define _GNU_SOURCE
#define RANKS 16
#define BY_HAND "2000", "0:128:48:0"
#include "app.h"

/* Of the box, in the order of a sweep from one corner: across, ranks and cells of this rank. */
struct column {
    int before[2], behind[2];
    long cells[2];
    uint32_t expected;
};

static struct column columns[2];
static uint32_t *plane, *borders[2];

/* One plane of cells; `west` and `north` are what flows in, and become what flows out. */
static void sweep_plane(uint32_t *cells, const long n[2], uint32_t *west, uint32_t *north)
{
    for (long i = 0; i < n[0]; i++) {
        uint32_t left = west[i];
        for (long j = 0; j < n[1]; j++)
            left = north[j] = cells[i * n[1] + j] += left + north[j];
        west[i] = left;
    }
}

static uint32_t sum_of(const uint32_t *cells, long n)
{
    uint32_t sum = 0;
    for (long i = 0; i < n; i++)
        sum = sum * 31 + cells[i];
    return sum;
}

/* What the last plane of a part of the box holds after a sweep with 1 at its borders, computed alone. */
static uint32_t alone(long side, long planes, const long from[2], const long n[2])
{
    long whole[2] = {side, side};
    uint32_t *cells = allocate((size_t)(side * side) * 4), *west = allocate((size_t)side * 4);
    uint32_t *north = allocate((size_t)side * 4), sum = 0;
    for (long i = 0; i < side * side; i++)
        cells[i] = 1;
    for (long k = 0; k < planes; k++) {
        memset(west, 0, (size_t)side * 4);
        memset(north, 0, (size_t)side * 4);
        sweep_plane(cells, whole, west, north);
    }
    for (long i = 0; i < n[0]; i++)
        for (long j = 0; j < n[1]; j++)
            sum = sum * 31 + cells[(from[0] + i) * side + from[1] + j];
    free(cells), free(west), free(north);
    return sum;
}

static void begin(struct point *point)
{
    long side = point->a;
    int across[2] = {0, 0};
    MPI_Dims_create(ranks, 2, across);
    if (side < across[0] || side > 1 << 14 || point->b < 1)
        fail("wavefront: the box is a cell wide for each process at least, 16384 at most, and a plane deep at least");
    int place[2] = {rank / across[1], rank % across[1]};
    for (int corner = 0; corner < 2; corner++) {
        struct column *column = &columns[corner];
        long from[2];
        for (int d = 0; d < 2; d++) {
            int stride = d ? 1 : across[1], way = corner ? -1 : 1, at = corner ? across[d] - 1 - place[d] : place[d];
            from[d] = part_of(side, at, across[d]);
            column->cells[d] = part_of(side, at + 1, across[d]) - from[d];
            column->before[d] = at > 0 ? rank - way * stride : MPI_PROC_NULL;
            column->behind[d] = at + 1 < across[d] ? rank + way * stride : MPI_PROC_NULL;
        }
        column->expected = alone(side, point->b, from, column->cells);
    }
    plane = allocate((size_t)(side * side) * 4);
    for (int d = 0; d < 2; d++)
        borders[d] = allocate((size_t)side * 4);
}

static void step(struct point *point, long s)
{
    const struct column *column = &columns[s % 2];
    const long *n = column->cells;
    uint32_t seed = (uint32_t)mix((uint64_t)s);
    for (long i = 0; i < n[0] * n[1]; i++)
        plane[i] = seed;
    for (long k = 0; k < point->b; k++) {
        for (int d = 0; d < 2; d++) {
            if (column->before[d] == MPI_PROC_NULL) {
                memset(borders[d], 0, (size_t)n[1 - d] * 4);
                continue;
            }
            enter();
            MPI_Recv(borders[d], (int)n[1 - d], MPI_UINT32_T, column->before[d], d, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            leave();
        }
        /* Along the first dimension the border is a row of the plane: what is north of it; along the second what is west. */
        sweep_plane(plane, n, borders[1], borders[0]);
        for (int d = 0; d < 2; d++) {
            if (column->behind[d] == MPI_PROC_NULL)
                continue;
            enter();
            MPI_Send(borders[d], (int)n[1 - d], MPI_UINT32_T, column->behind[d], d, MPI_COMM_WORLD);
            leave();
        }
    }
    checking();
    if (sum_of(plane, n[0] * n[1]) != seed * column->expected)
        wrong("a sweep over the box");
    checked();
}

static void end(struct point *point)
{
    (void)point;
    free(plane);
    for (int d = 0; d < 2; d++)
        free(borders[d]);
}
