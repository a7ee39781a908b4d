/* How long do accesses take while their target computes? Usage: passive [milliseconds] [rounds]
 * Rank 1 computes without calling MPI; rank 0 locks, accesses and unlocks its memory meanwhile. Prints, in microseconds, the
 * median time of each kind of access, with the slowest kind of window of each. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define LONG (1 << 18) /* ints */
enum { PUT, GET, ACCUMULATE, FETCH, LONG_PUT, LONG_GET, KINDS };

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void compute(double seconds) {
    volatile double x = 1;
    for (double end = MPI_Wtime() + seconds; MPI_Wtime() < end;)
        for (int i = 0; i < 1000; i++)
            x = x * 1.000001 + 1e-9;
}

int main(int argc, char **argv) {
    static const char *names[KINDS] = {"put", "get", "accumulate", "fetch", "long_put", "long_get"};
    int rank, rounds = argc > 2 ? atoi(argv[2]) : 11, *memory, *mine = calloc(LONG, sizeof(int)), one = 1, old;
    double busy = (argc > 1 ? atoi(argv[1]) : 20) * 1e-3, worst[KINDS] = {0}, *times = calloc(rounds, sizeof(double));
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int window = 0; window < 2; window++) {
        MPI_Win win;
        if (window == 0) {
            MPI_Win_allocate(LONG * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
        } else {
            memory = calloc(LONG, sizeof(int));
            MPI_Win_create(memory, LONG * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        }
        for (int kind = 0; kind < KINDS; kind++) {
            for (int round = -1; round < rounds; round++) {
                MPI_Barrier(MPI_COMM_WORLD);
                if (rank == 1) {
                    compute(busy);
                } else if (rank == 0) {
                    compute(2e-3); /* the target computes by now */
                    double begin = MPI_Wtime();
                    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
                    switch (kind) {
                    case PUT: MPI_Put(&one, 1, MPI_INT, 1, 0, 1, MPI_INT, win); break;
                    case GET: MPI_Get(&old, 1, MPI_INT, 1, 0, 1, MPI_INT, win); break;
                    case ACCUMULATE: MPI_Accumulate(&one, 1, MPI_INT, 1, 0, 1, MPI_INT, MPI_SUM, win); break;
                    case FETCH: MPI_Fetch_and_op(&one, &old, MPI_INT, 1, 0, MPI_SUM, win); break;
                    case LONG_PUT: MPI_Put(mine, LONG, MPI_INT, 1, 0, LONG, MPI_INT, win); break;
                    case LONG_GET: MPI_Get(mine, LONG, MPI_INT, 1, 0, LONG, MPI_INT, win); break;
                    }
                    MPI_Win_unlock(1, win);
                    times[round < 0 ? 0 : round] = MPI_Wtime() - begin;
                }
                MPI_Barrier(MPI_COMM_WORLD);
            }
            qsort(times, rounds, sizeof *times, by_value);
            if (times[rounds / 2] > worst[kind])
                worst[kind] = times[rounds / 2];
        }
        MPI_Win_free(&win);
    }
    for (int kind = 0; kind < KINDS && rank == 0; kind++)
        printf("%s %.1f\n", names[kind], worst[kind] * 1e6);
    MPI_Finalize();
    return 0;
}
