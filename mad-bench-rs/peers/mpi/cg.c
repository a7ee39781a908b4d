/* Conjugate gradients for the five-point Laplacian of a square grid, in strips of rows: each step is an iteration with an
 * exchange of border rows and two allreduces of 8 bytes. A: side of the grid. B, C: not used.
 *
 * The right-hand side belongs to a known solution, another one for every system. A system that has converged is checked
 * against it, and the next one begins; the residual at the end of all is computed anew and compared with the recurrence. */
#define _GNU_SOURCE
#define RANKS 64
#define BY_HAND "4000", "0:256:0:0"
#include "app.h"
#include <math.h>

static long side, first, rows, system_number;
static int above, below;
/* With a border row on both sides, and a border column of zeros: fields of (rows + 2) x (side + 2). */
static double *direction, *solution, *residual, *product, *right;
static double rho, rho_first;

static size_t at(long row, long column)
{
    return (size_t)(row + 1) * (size_t)(side + 2) + (size_t)(column + 1);
}

static double known(long row, long column)
{
    return (double)(mix((uint64_t)((row * side + column) * 64 + system_number)) >> 40) / (1 << 24) - 0.5;
}

/* product = matrix * field, whose border rows come from the neighbours. */
static void multiply(double *field)
{
    MPI_Request requests[4];
    enter();
    MPI_Irecv(field + at(-1, 0), (int)side, MPI_DOUBLE, above, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(field + at(rows, 0), (int)side, MPI_DOUBLE, below, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(field + at(0, 0), (int)side, MPI_DOUBLE, above, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(field + at(rows - 1, 0), (int)side, MPI_DOUBLE, below, 0, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    leave();
    for (long row = 0; row < rows; row++) {
        const double *f = field + at(row, 0), *up = field + at(row - 1, 0), *down = field + at(row + 1, 0);
        double *p = product + at(row, 0);
        for (long i = 0; i < side; i++)
            p[i] = 4 * f[i] - f[i - 1] - f[i + 1] - up[i] - down[i];
    }
}

static double dot(const double *x, const double *y)
{
    double mine = 0, all = 0;
    for (long row = 0; row < rows; row++) {
        const double *a = x + at(row, 0), *b = y + at(row, 0);
        for (long i = 0; i < side; i++)
            mine += a[i] * b[i];
    }
    enter();
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    leave();
    return all;
}

/* The next system, with the start at zero. */
static void next_system(void)
{
    system_number++;
    size_t bytes = (size_t)(rows + 2) * (size_t)(side + 2) * sizeof(double);
    for (long row = 0; row < rows; row++)
        for (long i = 0; i < side; i++)
            solution[at(row, i)] = known(first + row, i);
    multiply(solution);
    memcpy(right, product, bytes);
    memcpy(residual, product, bytes);
    memcpy(direction, product, bytes);
    memset(solution, 0, bytes);
    rho = rho_first = dot(residual, residual);
}

static void begin(struct point *point)
{
    side = point->a;
    if (side < ranks || side > 1 << 15)
        fail("cg: the grid has a row for each process at least, and 32768 at most");
    first = part_of(side, rank, ranks);
    rows = part_of(side, rank + 1, ranks) - first;
    above = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    below = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    double **const fields[] = {&direction, &solution, &residual, &product, &right};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        *fields[i] = allocate((size_t)(rows + 2) * (size_t)(side + 2) * sizeof(double));
    next_system();
}

static void check_solution(void)
{
    double largest = 0;
    for (long row = 0; row < rows; row++)
        for (long i = 0; i < side; i++)
            largest = fmax(largest, fabs(solution[at(row, i)] - known(first + row, i)));
    if (!(largest < 1e-5))
        wrong("a system that converged has another solution");
}

static void step(struct point *point, long s)
{
    (void)point, (void)s;
    multiply(direction);
    double alpha = rho / dot(direction, product);
    for (long row = 0; row < rows; row++)
        for (long i = 0; i < side; i++) {
            solution[at(row, i)] += alpha * direction[at(row, i)];
            residual[at(row, i)] -= alpha * product[at(row, i)];
        }
    double rho_new = dot(residual, residual), beta = rho_new / rho;
    for (long row = 0; row < rows; row++)
        for (long i = 0; i < side; i++)
            direction[at(row, i)] = residual[at(row, i)] + beta * direction[at(row, i)];
    rho = rho_new;
    if (rho < 1e-24 * rho_first) {
        checking();
        int64_t calls = in_mpi;
        check_solution();
        next_system();
        in_mpi = calls;
        checked();
    } else if (!(rho < 1e12 * rho_first)) {
        wrong("the iteration diverges");
    }
}

static void end(struct point *point)
{
    (void)point;
    multiply(solution);
    for (long row = 0; row < rows; row++)
        for (long i = 0; i < side; i++)
            product[at(row, i)] += residual[at(row, i)] - right[at(row, i)];
    if (!(dot(product, product) <= 1e-18 * rho_first))
        wrong("the residual is another than the recurrence has");
    free(direction), free(solution), free(residual), free(product), free(right);
}
