/* np: 2, peers: no */
/* A receiver that has posted a short receive and stays away until the synchronous send of the other side has returned. */
#include "board.h"

int main(int argc, char **argv) {
    int rank, value = 7, in = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    struct board *board = board_open(rank);
    double end = MPI_Wtime() + 60; /* of both rounds */
    for (int round = 1; round <= 2; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            MPI_Request request;
            MPI_Irecv(&in, 1, MPI_INT, 1, round, MPI_COMM_WORLD, &request);
            atomic_store(&board->away, round);
            while (atomic_load(&board->over) != round && MPI_Wtime() < end)
                usleep(1000);
            int served = atomic_load(&board->over) == round;
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            printf("got %d, served while it was away: %s\n", in, served ? "yes" : "no");
        } else {
            while (atomic_load(&board->away) != round)
                usleep(1000);
            MPI_Ssend(&value, 1, MPI_INT, 0, round, MPI_COMM_WORLD);
            atomic_store(&board->over, round);
        }
    }
    MPI_Finalize();
    return 0;
}
