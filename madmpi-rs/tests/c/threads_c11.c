/* np: 4 */
/* A thread of each process, made by C's own functions, sends to the next process and receives from the one before. */
#include <mpi.h>
#include <stdio.h>
#include <threads.h>
#include <time.h>

static int size, got = -1;

static int run(void *where) {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    *(int *)where = rank;
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    return 100 + rank;
}

int main(int argc, char **argv) {
    int provided, rank, seen = -1, result = -1;
    struct timespec moment = {0, 1000000};
    thrd_t thread;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (thrd_create(&thread, run, &seen) != thrd_success) MPI_Abort(MPI_COMM_WORLD, 1);
    if (thrd_sleep(&moment, NULL) != 0) MPI_Abort(MPI_COMM_WORLD, 2);
    thrd_yield();
    if (thrd_join(thread, &result) != thrd_success) MPI_Abort(MPI_COMM_WORLD, 3);
    int mine[3] = {seen, got, result}, all[12];
    MPI_Gather(mine, 3, MPI_INT, all, 3, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < size; i++)
        printf("%d: its thread was %d, got %d, returned %d\n", i, all[3 * i], all[3 * i + 1], all[3 * i + 2]);
    MPI_Finalize();
    return 0;
}
