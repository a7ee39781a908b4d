/* np: 2 */
/* Receives are taken back, unless their message has come; requests are freed while they go on. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    static int large[100000];
    int rank, word = 7, cancelled, flag, count;
    MPI_Status status;
    MPI_Request request, requests[3];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Irecv(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &cancelled);
        printf("waited for: %d %d\n", cancelled, word);
        MPI_Irecv(&word, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        do
            MPI_Test(&request, &flag, &status);
        while (!flag);
        MPI_Test_cancelled(&status, &cancelled);
        printf("tested: %d %d\n", cancelled, request == MPI_REQUEST_NULL);
        /* A persistent one can be started again. */
        MPI_Recv_init(&word, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, &request);
        MPI_Start(&request);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &cancelled);
        printf("persistent: %d\n", cancelled);
        MPI_Start(&request);
        MPI_Send(NULL, 0, MPI_INT, 1, 3, MPI_COMM_WORLD);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &cancelled);
        printf("again: %d %d\n", cancelled, word);
        MPI_Request_free(&request);
        /* The message has come: too late. */
        MPI_Irecv(&word, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, &request);
        MPI_Recv(NULL, 0, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &cancelled);
        MPI_Get_count(&status, MPI_INT, &count);
        printf("too late: %d %d %d\n", cancelled, word, count);
        /* One of several. */
        for (int i = 0; i < 3; i++)
            MPI_Irecv(&large[i], 1, MPI_INT, 1, 10 + i, MPI_COMM_WORLD, &requests[i]);
        MPI_Cancel(&requests[1]);
        MPI_Send(NULL, 0, MPI_INT, 1, 6, MPI_COMM_WORLD);
        MPI_Status statuses[3];
        MPI_Waitall(3, requests, statuses);
        for (int i = 0; i < 3; i++) {
            MPI_Test_cancelled(&statuses[i], &cancelled);
            printf("%d: %d %d\n", i, cancelled, large[i]);
        }
        /* Freed requests go on: their messages arrive. */
        for (int at = 0; at < 100000; at++)
            large[at] = at;
        MPI_Isend(large, 100000, MPI_INT, 1, 20, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
        printf("freed: %d\n", request == MPI_REQUEST_NULL);
        MPI_Recv(NULL, 0, MPI_INT, 1, 21, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Irecv(large, 100000, MPI_INT, 1, 22, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
        MPI_Send(NULL, 0, MPI_INT, 1, 23, MPI_COMM_WORLD);
        MPI_Recv(NULL, 0, MPI_INT, 1, 24, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("came: %d %d\n", large[0], large[99999]);
    } else {
        MPI_Recv(NULL, 0, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        word = 8;
        MPI_Send(&word, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
        word = 9;
        MPI_Send(&word, 1, MPI_INT, 0, 4, MPI_COMM_WORLD);
        MPI_Send(NULL, 0, MPI_INT, 0, 5, MPI_COMM_WORLD);
        MPI_Recv(NULL, 0, MPI_INT, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < 3; i += 2) {
            word = 40 + i;
            MPI_Send(&word, 1, MPI_INT, 0, 10 + i, MPI_COMM_WORLD);
        }
        MPI_Recv(large, 100000, MPI_INT, 0, 20, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int at = 0; at < 100000; at++)
            if (large[at] != at)
                printf("wrong at %d: %d\n", at, large[at]);
        MPI_Send(NULL, 0, MPI_INT, 0, 21, MPI_COMM_WORLD);
        MPI_Recv(NULL, 0, MPI_INT, 0, 23, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int at = 0; at < 100000; at++)
            large[at] = 2 * at;
        MPI_Ssend(large, 100000, MPI_INT, 0, 22, MPI_COMM_WORLD);
        MPI_Send(NULL, 0, MPI_INT, 0, 24, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
