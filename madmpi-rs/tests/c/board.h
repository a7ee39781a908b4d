/* Flags that two ranks share beside MPI, so that one can see what the other has come to without a call of MPI. The ranks are
 * processes, or threads of one. */
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct board {
    atomic_int away; /* the number of the step in which rank 1 or 0 is outside of MPI */
    atomic_int over; /* the last step that the other one has come to the end of */
};

/* Collective over two ranks. */
static struct board *board_open(int rank) {
    char name[64] = "/tmp/madmpi-board-XXXXXX";
    int file = rank == 0 ? mkstemp(name) : -1;
    if (rank == 0 && (file < 0 || ftruncate(file, sizeof(struct board)) != 0))
        MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    FILE *opened = rank == 0 ? fdopen(file, "r+") : fopen(name, "r+");
    if (opened == NULL)
        MPI_Abort(MPI_COMM_WORLD, 4);
    void *board = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, fileno(opened), 0);
    if (board == MAP_FAILED)
        MPI_Abort(MPI_COMM_WORLD, 5);
    fclose(opened);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        unlink(name);
    return board;
}
