/* np: 3, peers: no */
/* Collectives that are made once and started many times. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, size, wrong = 0, mine, sum, all[8];
    MPI_Request requests[3];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce_init(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Allgather_init(&mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &requests[2]);
    for (int round = 0; round < 50; round++) {
        mine = round * 10 + rank;
        MPI_Startall(3, requests);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        wrong += sum != round * 10 * size + size * (size - 1) / 2;
        for (int r = 0; r < size; r++)
            wrong += all[r] != round * 10 + r;
    }
    for (int i = 0; i < 3; i++)
        MPI_Request_free(&requests[i]);
    MPI_Reduce(&wrong, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d wrong\n", sum);
    MPI_Finalize();
    return 0;
}
