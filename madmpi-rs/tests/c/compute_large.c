/* Large messages arrive while a side computes: tests/mpi.rs. Usage: compute_large BYTES ROUNDS
 * Rank 1 has posted a receive (then a send) and computes until rank 0's MPI_Send (MPI_Recv) has returned. Prints in how many
 * rounds that came. */
#include "compute.h"

static void fill(char *buffer, int bytes, int step) {
    for (int i = 0; i < bytes; i++)
        buffer[i] = (char)(i * 7 + i / 256 + step);
}

static void check(const char *buffer, int bytes, int step) {
    for (int i = 0; i < bytes; i++)
        if (buffer[i] != (char)(i * 7 + i / 256 + step)) {
            printf("step %d: byte %d is wrong\n", step, i);
            return;
        }
}

int main(int argc, char **argv) {
    int rank, bytes = argc > 1 ? atoi(argv[1]) : 1 << 20, rounds = argc > 2 ? atoi(argv[2]) : 3, step = 0, sent = 0, received = 0;
    char *buffer = calloc(bytes, 1);
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    struct board *board = board_open(rank);
    for (int round = 0; round < rounds; round++) {
        step++;
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            fill(buffer, bytes, step);
            computes(board, step);
            MPI_Send(buffer, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            atomic_store(&board->over, step);
        } else {
            MPI_Irecv(buffer, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
            sent += compute(board, step);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            check(buffer, bytes, step);
        }
        step++;
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            computes(board, step);
            MPI_Recv(buffer, bytes, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            atomic_store(&board->over, step);
            check(buffer, bytes, step);
        } else {
            fill(buffer, bytes, step);
            MPI_Isend(buffer, bytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &request);
            received += compute(board, step);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    }
    if (rank == 1)
        printf("send %d recv %d\n", sent, received);
    MPI_Finalize();
    return 0;
}
