/* Members that do not call the same collective: how they differ is the argument. Rank 0 prints what it is told. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    int rank, len, code, value = 1;
    char text[MPI_MAX_ERROR_STRING];
    const char *mode = argc > 1 ? argv[1] : "";
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (strcmp(mode, "function") == 0)
        code = rank == 0 ? MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD) : MPI_Barrier(MPI_COMM_WORLD);
    else if (strcmp(mode, "root") == 0)
        code = MPI_Bcast(&value, 1, MPI_INT, rank, MPI_COMM_WORLD);
    else { /* as a request */
        code = rank == 0 ? MPI_Ibarrier(MPI_COMM_WORLD, &request)
                         : MPI_Ibcast(&value, 1, MPI_INT, 1, MPI_COMM_WORLD, &request);
        if (code == MPI_SUCCESS)
            code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (rank == 0) {
        MPI_Error_string(code, text, &len);
        printf("%s\n", code == MPI_SUCCESS ? "nothing" : text);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
