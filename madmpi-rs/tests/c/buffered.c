/* np: 2, peers: mpich */
/* The attached buffer: what has room, what has not, and when room comes back. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEN = 200000, FIT = 3 };

static const char *name(int code) {
    int class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    return class == MPI_SUCCESS ? "ok" : class == MPI_ERR_BUFFER ? "buffer" : "?";
}

int main(int argc, char **argv) {
    int rank, size, word = 0;
    void *given;
    char *data = malloc(LEN);
    int room = FIT * (LEN + MPI_BSEND_OVERHEAD);
    char *buffer = malloc(room);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (rank == 0) {
        memset(data, 1, LEN);
        printf("none: %s\n", name(MPI_Bsend(data, LEN, MPI_CHAR, 1, 1, MPI_COMM_WORLD)));
        MPI_Buffer_attach(buffer, room);
        printf("too long: %s\n", name(MPI_Bsend(data, room, MPI_CHAR, 1, 1, MPI_COMM_WORLD)));
        for (int round = 0; round < 5; round++) {
            for (int i = 0; i < FIT; i++) {
                memset(data, round * FIT + i, LEN);
                int code = MPI_Bsend(data, LEN, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
                if (code != MPI_SUCCESS)
                    printf("round %d, %d: %s\n", round, i, name(code));
            }
            /* No message is received yet: all are in the buffer. */
            int code = MPI_Bsend(data, LEN, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
            printf("full: %s\n", name(code));
            MPI_Send(&word, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
            MPI_Buffer_detach(&given, &size);
            printf("detached: %d %d\n", given == (void *)buffer, size == room);
            MPI_Recv(&word, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Buffer_attach(buffer, room);
        }
        MPI_Buffer_detach(&given, &size);
    } else {
        for (int round = 0; round < 5; round++) {
            MPI_Recv(&word, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int i = 0; i < FIT; i++) {
                MPI_Recv(data, LEN, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                if (data[0] != round * FIT + i || data[LEN - 1] != data[0])
                    printf("wrong: round %d, %d: %d\n", round, i, data[0]);
            }
            MPI_Send(&word, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
        }
    }
    MPI_Finalize();
    free(data);
    free(buffer);
    return 0;
}
