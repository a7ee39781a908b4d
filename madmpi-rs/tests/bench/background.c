/* Does a large message arrive while one side computes? Usage: background [bytes] [milliseconds] [rounds]
 * Rank 1 posts a receive (then a send) and computes without calling MPI. Prints, in microseconds, the median time of the
 * transfer alone, of MPI_Send while the receiver computes, of MPI_Recv while the sender computes, and of the waits. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2] * 1e6;
}

static void compute(double seconds) {
    volatile double x = 1;
    for (double end = MPI_Wtime() + seconds; MPI_Wtime() < end;)
        for (int i = 0; i < 1000; i++)
            x = x * 1.000001 + 1e-9;
}

int main(int argc, char **argv) {
    int rank, bytes = argc > 1 ? atoi(argv[1]) : 1 << 20, rounds = argc > 3 ? atoi(argv[3]) : 21;
    double busy = (argc > 2 ? atoi(argv[2]) : 20) * 1e-3;
    char *buffer = calloc(bytes, 1);
    double *alone = calloc(rounds, sizeof(double)), *send = calloc(rounds, sizeof(double)),
           *recv = calloc(rounds, sizeof(double)), *wait[2] = {calloc(rounds, sizeof(double)), calloc(rounds, sizeof(double))};
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int round = -2; round < rounds; round++) {
        int at = round < 0 ? 0 : round;
        double begin;
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            begin = MPI_Wtime();
            MPI_Send(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            alone[at] = MPI_Wtime() - begin;
            MPI_Barrier(MPI_COMM_WORLD);
            begin = MPI_Wtime();
            MPI_Send(buffer, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            send[at] = MPI_Wtime() - begin;
            MPI_Barrier(MPI_COMM_WORLD);
            begin = MPI_Wtime();
            MPI_Recv(buffer, bytes, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            recv[at] = MPI_Wtime() - begin;
        } else {
            MPI_Recv(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Irecv(buffer, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
            MPI_Barrier(MPI_COMM_WORLD);
            compute(busy);
            begin = MPI_Wtime();
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            wait[0][at] = MPI_Wtime() - begin;
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Isend(buffer, bytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &request);
            compute(busy);
            begin = MPI_Wtime();
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            wait[1][at] = MPI_Wtime() - begin;
        }
    }
    if (rank == 1) {
        MPI_Send(wait[0], rounds, MPI_DOUBLE, 0, 3, MPI_COMM_WORLD);
        MPI_Send(wait[1], rounds, MPI_DOUBLE, 0, 3, MPI_COMM_WORLD);
    } else {
        MPI_Recv(wait[0], rounds, MPI_DOUBLE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(wait[1], rounds, MPI_DOUBLE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("alone %.0f send %.0f recv %.0f wait-recv %.0f wait-send %.0f\n", median(alone, rounds), median(send, rounds),
               median(recv, rounds), median(wait[0], rounds), median(wait[1], rounds));
    }
    MPI_Finalize();
    return 0;
}
