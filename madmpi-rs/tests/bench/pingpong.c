/* Half a round trip of one byte, in ns: the median of many rounds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    int rank, size, rounds = argc > 1 ? atoi(argv[1]) : 1000;
    char byte = 42;
    double *times = malloc(sizeof *times * rounds);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) {
        fprintf(stderr, "run me with two processes\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int round = 0; round < rounds; round++) {
        double begin = MPI_Wtime();
        for (int i = 0; i < 100; i++) {
            if (rank == 0) {
                MPI_Send(&byte, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
                MPI_Recv(&byte, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else {
                MPI_Recv(&byte, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Send(&byte, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
            }
        }
        times[round] = (MPI_Wtime() - begin) / 200;
    }
    qsort(times, rounds, sizeof *times, by_value);
    if (rank == 0)
        printf("%.0f ns\n", times[rounds / 2] * 1e9);
    free(times);
    MPI_Finalize();
    return 0;
}
