/* np: 2, peers: no */
/* As freed_receive.c, of a request for both. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N 100
#define LONG (1 << 20)

int main(int argc, char **argv) {
    int rank, word = 0, buffer[2 * N] = {0}, data[N];
    MPI_Datatype every_second;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < N; i++)
        data[i] = 100 + i;
    MPI_Type_vector(N, 1, 2, MPI_INT, &every_second);
    MPI_Type_commit(&every_second);
    if (rank == 1) {
        MPI_Isendrecv(&word, 1, MPI_INT, 0, 2, buffer, 1, every_second, 0, 1, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Send(data, N, MPI_INT, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(&word, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&word, 1, MPI_INT, 1, 3, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&word, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        printf("freed: %d %d %d\n", buffer[0], buffer[1], buffer[2 * N - 2]);
    }
    /* Under way when the process finalizes: long, and announced later. */
    char *bytes = calloc(LONG, 1);
    if (rank == 1) {
        MPI_Isendrecv(&word, 1, MPI_INT, 0, 2, bytes, LONG, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    } else {
        memset(bytes, 'x', LONG);
        MPI_Recv(&word, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        usleep(300000);
        MPI_Send(bytes, LONG, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
    }
    MPI_Type_free(&every_second);
    MPI_Finalize();
    if (rank == 1)
        printf("finalized: %c %c\n", bytes[0], bytes[LONG - 1]);
    return 0;
}
