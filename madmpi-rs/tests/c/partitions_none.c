/* np: 2, peers: no */
/* Messages of no partitions, on one side or on both, with no bytes and with some; and questions to no request. */
#include "classes.h"
#include <mpi.h>
#include <stdio.h>

static int rank, data[8];

/* A message of such partitions at the sender and at the receiver, twice; returns the classes of the receiver's waits. */
static void message(const char *what, int sent, int count, int expected, int room) {
    MPI_Request request;
    MPI_Status status;
    int codes[2], bytes = -1;
    if (rank == 0)
        MPI_Psend_init(data, sent, count, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    else
        MPI_Precv_init(data, expected, room, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int round = 0; round < 2; round++) {
        MPI_Start(&request);
        if (rank == 0)
            MPI_Pready_range(0, sent - 1, request);
        codes[round] = class_of(MPI_Wait(&request, &status));
    }
    if (rank == 0 && (codes[0] != MPI_SUCCESS || codes[1] != MPI_SUCCESS))
        printf("%s: the sender got %d, %d\n", what, codes[0], codes[1]);
    if (rank == 1) {
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        const char *said = codes[0] == MPI_SUCCESS ? "arrived" : codes[0] == MPI_ERR_TRUNCATE ? "truncated" : "?";
        printf("%s: %s, %s, %d bytes\n", what, said, codes[1] == codes[0] ? "again" : "once", bytes);
    }
    MPI_Request_free(&request);
}

int main(int argc, char **argv) {
    MPI_Request request;
    int flag = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    message("none, none", 0, 4, 0, 4);
    message("none, three of nothing", 0, 4, 3, 0);
    message("three of nothing, none", 3, 0, 0, 4);
    message("three of two, none", 3, 2, 0, 4);
    message("three of two, two of three", 3, 2, 2, 3);

    /* Nothing is ready before the wait, and there is nothing that could be. */
    if (rank == 0)
        MPI_Psend_init(data, 0, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    else
        MPI_Precv_init(data, 2, 0, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    if (rank == 1) {
        MPI_Parrived(request, 1, &flag);
        printf("inactive: %d\n", flag);
    }
    MPI_Start(&request);
    if (rank == 0) {
        if (MPI_Pready(0, request) != MPI_ERR_ARG)
            printf("a partition that is not there is ready\n");
    } else {
        do
            MPI_Parrived(request, 1, &flag);
        while (!flag);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);

    if (rank == 1) {
        int code = class_of(MPI_Psend_init(data, -1, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
        printf("negative: %d\n", code == MPI_ERR_COUNT);
        flag = -1;
        code = class_of(MPI_Parrived(MPI_REQUEST_NULL, 0, &flag));
        printf("arrived at no request: %d %d\n", code, flag);
        code = class_of(MPI_Pready(0, MPI_REQUEST_NULL));
        printf("ready at no request: %d\n", code == MPI_ERR_REQUEST);
    }
    MPI_Finalize();
    return 0;
}
