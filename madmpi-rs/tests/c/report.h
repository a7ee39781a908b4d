/* What programs find, said once by rank 0 for all ranks. */
#include <mpi.h>
#include <stdio.h>

static int rank, size, errors;

/* Says whether all ranks have found everything right since the last report. */
static void report(const char *what) {
    int all;
    MPI_Allreduce(&errors, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: %s\n", what, all ? "WRONG" : "right");
    errors = 0;
}

static void expect(int ok, const char *what) {
    if (!ok && errors++ < 3)
        fprintf(stderr, "rank %d of %d: %s\n", rank, size, what);
}

#define EXPECT(condition) expect(condition, #condition)
