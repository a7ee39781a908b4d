/* np: 1 2 3, peers: openmpi, peers-np: 3 */
/* Four threads of each rank use one window at once. Each flushes for itself: what it has put is there, whatever the others do.
 * MPICH 4.0.2 is left out for the reason that win_objects.c names. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 4
#define TURNS 200
#define LONG 3000
static int rank, size;
static MPI_Win win;

static void *run(void *argument) {
    int me = (int)(long)argument, one = 1, *mine = malloc(LONG * sizeof(int)), *back = malloc(LONG * sizeof(int));
    long wrong = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        int target = (rank + turn) % size, old, length = turn % 4 ? 3 : LONG;
        /* The place of this thread in the target's memory. */
        MPI_Aint at = 1 + (rank * THREADS + me) * LONG;
        for (int i = 0; i < length; i++)
            mine[i] = turn * 1000 + me + i;
        MPI_Put(mine, length, MPI_INT, target, at, length, MPI_INT, win);
        MPI_Win_flush(target, win);
        MPI_Get(back, length, MPI_INT, target, at, length, MPI_INT, win);
        MPI_Fetch_and_op(&one, &old, MPI_INT, target, 0, MPI_SUM, win);
        if (turn % 2)
            MPI_Win_flush_local(target, win);
        else
            MPI_Win_flush_all(win);
        for (int i = 0; i < length; i++)
            wrong += back[i] != mine[i];
        wrong += old < 0 || old >= TURNS * THREADS * size;
    }
    free(mine), free(back);
    return (void *)wrong;
}

int main(int argc, char **argv) {
    int provided, *memory, all;
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int form = 0; form < 2; form++) {
        MPI_Aint bytes = (1 + size * THREADS * LONG) * sizeof(int);
        if (form == 0) {
            MPI_Win_allocate(bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
        } else {
            memory = malloc(bytes);
            MPI_Win_create(memory, bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        }
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
        memory[0] = 0;
        MPI_Win_unlock(rank, win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock_all(0, win);
        long wrong = 0;
        void *result;
        for (long i = 0; i < THREADS; i++)
            pthread_create(&threads[i], NULL, run, (void *)i);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], &result);
            wrong += (long)result;
        }
        MPI_Win_unlock_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
        int sum = memory[0], ok;
        MPI_Win_unlock(rank, win);
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        ok = provided == MPI_THREAD_MULTIPLE && !wrong && sum == TURNS * THREADS * size;
        MPI_Allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        if (rank == 0)
            printf("threads: %s\n", all ? "right" : "WRONG");
        MPI_Win_free(&win);
        if (form == 1)
            free(memory);
    }
    MPI_Finalize();
    return 0;
}
