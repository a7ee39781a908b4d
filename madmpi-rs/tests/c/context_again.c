/* np: 2, peers: no */
/* What a communicator whose collective has failed had for a name is not another one's: many come after it. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    enum { N = 2500 };
    int rank, made = 0, mine[2] = {1, 1}, all[2] = {0, 0};
    MPI_Comm comm;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (MPI_Allreduce(mine, all, 1 + rank, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS)
        printf("rank %d: one and two elements fit\n", rank);
    MPI_Comm_free(&comm);
    for (int i = 0; i < N; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Allreduce(mine, all, 1, MPI_INT, MPI_SUM, comm);
        made += all[0] == 2;
        MPI_Comm_free(&comm);
    }
    if (rank == 0)
        printf("%d communicators\n", made);
    MPI_Finalize();
    return 0;
}
