/* np: 1 2 4 */
/* Collectives and an error in a function that `exit` calls, when the values of the main thread are gone. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
static void f(void) {
    int one = 1, sum = 0;
    MPI_Comm other;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Request r;
    MPI_Iallreduce(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_SUM, other, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Comm_set_errhandler(other, MPI_ERRORS_RETURN);
    int code = MPI_Send(NULL, -1, MPI_INT, 0, 0, other), len;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Error_string(code, text, &len);
    MPI_Comm_free(&other);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0)
        printf("the sums are right: %d\n", sum == size && one == size);
    MPI_Finalize();
}
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    atexit(f);
    MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}
