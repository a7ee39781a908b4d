/* np: 8 */
/* A grid whose ranks may be given out anew: neighbours are not further apart than in the order of the ranks. */
#include <mpi.h>
#include <unistd.h>
#include "report.h"

/* How many neighbours in a grid of 2 x 4 are in different processes. */
static int apart(const int *processes) {
    int count = 0;
    for (int at = 0; at < 8; at++) {
        if (at % 4 != 3)
            count += processes[at] != processes[at + 1];
        if (at < 4)
            count += processes[at] != processes[at + 4];
    }
    return count;
}

int main(int argc, char **argv) {
    int dims[2] = {2, 4}, periods[2] = {0, 0}, coords[2], old[8], new[8], in_order[8], processes[8], own, up, down, told = -1;
    MPI_Comm grid;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &grid);
    MPI_Comm_rank(grid, &own);
    MPI_Cart_coords(grid, own, 2, coords);
    expect(coords[0] == own / 4 && coords[1] == own % 4, "coordinates of the new rank");
    MPI_Allgather(&own, 1, MPI_INT, new, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Allgather(&rank, 1, MPI_INT, old, 1, MPI_INT, grid);
    for (int i = 0; i < 8; i++)
        expect(new[old[i]] == i, "each has one place");
    /* What goes along the grid arrives there. */
    MPI_Cart_shift(grid, 0, 1, &up, &down);
    MPI_Sendrecv(&rank, 1, MPI_INT, down, 0, &told, 1, MPI_INT, up, 0, grid, MPI_STATUS_IGNORE);
    expect(told == (coords[0] == 0 ? -1 : old[own - 4]), "from the neighbour");
    report("grid");

    int process = (int)getpid(), distinct = 0;
    MPI_Allgather(&process, 1, MPI_INT, in_order, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Allgather(&process, 1, MPI_INT, processes, 1, MPI_INT, grid);
    for (int i = 0; i < 8; i++)
        distinct += i == 0 || in_order[i] != in_order[i - 1];
    expect(apart(processes) <= apart(in_order), "further apart than before");
    /* Two processes of four ranks: a row each would have four neighbours apart, a square each has two. */
    if (distinct == 2)
        expect(apart(processes) == 2, "a square for each process");
    report("neighbours");
    MPI_Comm_free(&grid);
    MPI_Finalize();
    return 0;
}
