/* np: 2 */
/* Threads that make and free communicators of the same group, each with its own tag, the same one in each round. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

#define THREADS 6
#define ROUNDS 300

static int rank, size;
static MPI_Group all;

static void *make(void *argument) {
    long tag = (long)argument, wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Comm comm;
        int mine = rank + round, sum = -1;
        MPI_Comm_create_group(MPI_COMM_WORLD, all, tag, &comm);
        for (int i = 0; i < 3; i++) {
            MPI_Request request;
            MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            wrong += sum != size * (size - 1) / 2 + size * round;
        }
        MPI_Comm_free(&comm);
    }
    return (void *)wrong;
}

int main(int argc, char **argv) {
    int provided, total, wrong = 0;
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, make, (void *)(7 + i));
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        wrong += (int)(long)result;
    }
    MPI_Reduce(&wrong, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d wrong\n", total);
    MPI_Group_free(&all);
    MPI_Finalize();
    return 0;
}
