/* np: 2, peers: no */
/* Sends that nobody receives are taken back; one that is received is not. (MPICH 4.0 and Open MPI 4.1 cancel no send.) */
#include <mpi.h>
#include <stdio.h>

#define LONG 200000
#define ROUNDS 400

static int data[LONG], into[LONG];

int main(int argc, char **argv) {
    int rank, cancelled, flag, word = 5, wrong = 0, total, sent = 0, came = 0;
    MPI_Status status;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int other = 1 - rank;
    for (int i = 0; i < LONG; i++)
        data[i] = i;

    /* The other one is in a receive, or computes. */
    if (rank == 0) {
        MPI_Issend(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &cancelled);
        printf("synchronous: %d\n", cancelled);
        MPI_Isend(data, LONG, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &cancelled);
        printf("long: %d\n", cancelled);
        MPI_Issend(data, LONG, MPI_INT, 0, 1, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        MPI_Cancel(&request);
        do
            MPI_Test(&request, &flag, &status);
        while (!flag);
        MPI_Test_cancelled(&status, &cancelled);
        printf("to itself: %d\n", cancelled);
        /* A persistent one is started again, and received. */
        MPI_Ssend_init(&word, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, &request);
        MPI_Start(&request);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &cancelled);
        printf("persistent: %d\n", cancelled);
        MPI_Send(NULL, 0, MPI_INT, 1, 3, MPI_COMM_WORLD);
        MPI_Start(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &cancelled);
        printf("again: %d\n", cancelled);
        MPI_Request_free(&request);
    } else {
        MPI_Recv(NULL, 0, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Iprobe(0, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        wrong += flag;
        MPI_Recv(&into[0], 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        wrong += into[0] != 5;
    }

    /* Both send and cancel while the other receives: each message is cancelled or received, and never both. */
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request pair[2];
        int count = round % 3 == 0 ? LONG : 1 + round % 7;
        data[0] = round;
        MPI_Issend(data, count, MPI_INT, other, 100 + round, MPI_COMM_WORLD, &pair[0]);
        if (round % 5 == rank)
            for (volatile int spin = 0; spin < 20 * round; spin++) { }
        MPI_Irecv(into, LONG, MPI_INT, other, 100 + round, MPI_COMM_WORLD, &pair[1]);
        if (round % 4)
            MPI_Cancel(&pair[0]);
        MPI_Wait(&pair[0], &status);
        MPI_Test_cancelled(&status, &cancelled);
        wrong += cancelled && round % 4 == 0;
        int mine = !cancelled, theirs;
        MPI_Sendrecv(&mine, 1, MPI_INT, other, 10, &theirs, 1, MPI_INT, other, 10, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (!theirs)
            MPI_Cancel(&pair[1]);
        MPI_Wait(&pair[1], &status);
        MPI_Test_cancelled(&status, &cancelled);
        wrong += cancelled == theirs;
        if (!cancelled) {
            int length;
            MPI_Get_count(&status, MPI_INT, &length);
            wrong += length != count || into[0] != round || (count > 1 && into[count - 1] != count - 1);
        }
        sent += mine;
        came += !cancelled;
        data[0] = 0;
    }
    wrong += sent < ROUNDS / 4 || came < ROUNDS / 4;
    MPI_Barrier(MPI_COMM_WORLD); /* one that has left ends the other's last receive */
    MPI_Reduce(&wrong, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d wrong\n", total);
    MPI_Finalize();
    return 0;
}
