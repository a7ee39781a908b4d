/* np: 2, peers: no */
/* A receiver that has posted a short receive and stays away for two seconds: a synchronous send ends long before. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, value = 7, in = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int round = 0; round < 2; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            MPI_Request request;
            MPI_Irecv(&in, 1, MPI_INT, 1, round, MPI_COMM_WORLD, &request);
            double end = MPI_Wtime() + 2;
            while (MPI_Wtime() < end)
                usleep(1000);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            int served;
            MPI_Recv(&served, 1, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            printf("got %d, served while it was away: %s\n", in, served ? "yes" : "no");
        } else {
            double begun = MPI_Wtime();
            usleep(100000); /* the receive is posted, and its owner away */
            MPI_Ssend(&value, 1, MPI_INT, 0, round, MPI_COMM_WORLD);
            int served = MPI_Wtime() - begun < 1.8;
            MPI_Send(&served, 1, MPI_INT, 0, 9, MPI_COMM_WORLD);
        }
    }
    MPI_Finalize();
    return 0;
}
