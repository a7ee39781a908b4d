/* One-byte messages between two ranks, for a counter of instructions: ci/instructions.sh counts what happens inside
 * send_one and receive_one. A receiver sleeps until the messages of a window have arrived, so that it polls once for each,
 * and senders do not wait for room. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

enum { WINDOW = 16 };

static char byte;

__attribute__((noinline)) void send_one(int to)
{
    MPI_Send(&byte, 1, MPI_BYTE, to, 7, MPI_COMM_WORLD);
}

__attribute__((noinline)) void receive_one(int from)
{
    MPI_Recv(&byte, 1, MPI_BYTE, from, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int windows = argc > 1 ? atoi(argv[1]) : 50, rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int window = 0; window < windows; window++) {
        if (rank == 0) {
            for (int i = 0; i < WINDOW; i++)
                send_one(1);
        } else {
            usleep(20000);
            for (int i = 0; i < WINDOW; i++)
                receive_one(0);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
