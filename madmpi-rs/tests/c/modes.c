/* np: 2 */
/* Every mode of sending, in order, short and long; a synchronous send does not end before its receive. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LONG = 100000 };

static int rank;

static int length(int i) { return i % 4 == 3 ? LONG : i; }

static void check(int *data, int i) {
    for (int at = 0; at < length(i); at++)
        if (data[at] != i * 1000 + at) {
            printf("message %d is wrong at %d: %d\n", i, at, data[at]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
}

int main(int argc, char **argv) {
    static int data[LONG];
    static char room[20 * (LONG * sizeof(int) + MPI_BSEND_OVERHEAD)];
    int i, size, count, flag;
    void *given;
    MPI_Status status;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Buffer_attach(room, sizeof room);
    for (i = 0; i < 32; i++) {
        if (rank == 0) {
            for (int at = 0; at < length(i); at++)
                data[at] = i * 1000 + at;
            switch (i / 4) {
            case 0: MPI_Send(data, length(i), MPI_INT, 1, 5, MPI_COMM_WORLD); break;
            case 1: MPI_Ssend(data, length(i), MPI_INT, 1, 5, MPI_COMM_WORLD); break;
            case 2:
                MPI_Bsend(data, length(i), MPI_INT, 1, 5, MPI_COMM_WORLD);
                for (int at = 0; at < length(i); at++)
                    data[at] = -1; /* it is ours again at once */
                break;
            case 3: /* the receive is there already */
                MPI_Recv(NULL, 0, MPI_INT, 1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Rsend(data, length(i), MPI_INT, 1, 5, MPI_COMM_WORLD);
                break;
            case 4:
                MPI_Isend(data, length(i), MPI_INT, 1, 5, MPI_COMM_WORLD, &request);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
                break;
            case 5:
                MPI_Issend(data, length(i), MPI_INT, 1, 5, MPI_COMM_WORLD, &request);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
                break;
            case 6:
                MPI_Ibsend(data, length(i), MPI_INT, 1, 5, MPI_COMM_WORLD, &request);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
                for (int at = 0; at < length(i); at++)
                    data[at] = -1;
                break;
            default:
                MPI_Recv(NULL, 0, MPI_INT, 1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Irsend(data, length(i), MPI_INT, 1, 5, MPI_COMM_WORLD, &request);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            }
        } else {
            MPI_Irecv(data, LONG, MPI_INT, 0, 5, MPI_COMM_WORLD, &request);
            if (i / 4 == 3 || i / 4 == 7)
                MPI_Send(NULL, 0, MPI_INT, 0, 6, MPI_COMM_WORLD);
            MPI_Wait(&request, &status);
            MPI_Get_count(&status, MPI_INT, &count);
            if (count != length(i))
                printf("message %d has %d elements\n", i, count);
            check(data, i);
        }
    }
    /* A synchronous send of nothing waits for its receive, a buffered one of much does not. */
    if (rank == 0) {
        MPI_Issend(NULL, 0, MPI_INT, 1, 7, MPI_COMM_WORLD, &request);
        usleep(20000);
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        printf("synchronous, not received: %d\n", flag);
        MPI_Bsend(data, LONG, MPI_INT, 1, 8, MPI_COMM_WORLD);
        MPI_Send(NULL, 0, MPI_INT, 1, 9, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Buffer_detach(&given, &size);
        printf("detached: %d %d\n", given == (void *)room, size == (int)sizeof room);
    } else {
        MPI_Recv(NULL, 0, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(NULL, 0, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(data, LONG, MPI_INT, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Buffer_detach(&given, &size);
    }
    if (rank == 0)
        printf("done\n");
    MPI_Finalize();
    return 0;
}
