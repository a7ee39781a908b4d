/* A hybrid program in C: heat that spreads in a rod. Each rank has a part of the rod and computes it with threads of its own;
 * ranks exchange the ends of their parts. It is an ordinary MPI program, and its ranks may be processes or green threads of one:
 *
 *   mpicc -O2 -pthread -o heat heat.c                          (madmpi's mpicc)
 *   mad run -n 8 ./heat                                        a process for each rank
 *   mad run -n 8 --ranks-per-process 4 ./heat 2000 50 2        four ranks in each of two processes
 *
 * Arguments: cells of the rod, steps, threads of each rank. All ways print the same line. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* Every rank has these for itself, also where ranks share a process. */
static double *now, *next;
static long mine, threads = 2;

struct part {
    long from, to;
};

/* A kernel thread of the rank: the heat of each cell after a step, from its neighbours'. */
static void *compute(void *argument)
{
    const struct part *part = argument;
    for (long i = part->from; i < part->to; i++)
        next[i] = now[i] + 0.25 * (now[i - 1] - 2 * now[i] + now[i + 1]);
    return NULL;
}

static void step(void)
{
    pthread_t thread[16];
    struct part part[16];
    for (long t = 0; t < threads; t++) {
        part[t] = (struct part){1 + mine * t / threads, 1 + mine * (t + 1) / threads};
        if (pthread_create(&thread[t], NULL, compute, &part[t])) {
            fprintf(stderr, "heat: no thread can be started\n");
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    for (long t = 0; t < threads; t++)
        pthread_join(thread[t], NULL); /* holds up this rank only */
    double *swapped = now;
    now = next;
    next = swapped;
}

int main(int argc, char **argv)
{
    int rank, ranks;
    long cells = argc > 1 ? atol(argv[1]) : 2000, steps = argc > 2 ? atol(argv[2]) : 50;
    threads = argc > 3 ? atol(argv[3]) : threads;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (cells < ranks || steps < 1 || threads < 1 || threads > 16) {
        if (rank == 0)
            fprintf(stderr, "usage: heat [CELLS [STEPS [THREADS]]]: a cell for each rank, 1 to 16 threads\n");
        MPI_Finalize();
        return 2;
    }
    long first = cells * rank / ranks;
    mine = cells * (rank + 1) / ranks - first;
    now = calloc((size_t)mine + 2, sizeof *now);
    next = calloc((size_t)mine + 2, sizeof *next);
    if (!now || !next) {
        fprintf(stderr, "heat: no memory for %ld cells\n", mine);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (long i = 1; i <= mine; i++)
        now[i] = first + i - 1 == cells / 2 ? 1000 : 0;
    int left = rank > 0 ? rank - 1 : MPI_PROC_NULL, right = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    for (long s = 0; s < steps; s++) {
        MPI_Sendrecv(&now[1], 1, MPI_DOUBLE, left, 0, &now[mine + 1], 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Sendrecv(&now[mine], 1, MPI_DOUBLE, right, 1, &now[0], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        /* No heat leaves by the ends of the rod. */
        if (left == MPI_PROC_NULL)
            now[0] = now[1];
        if (right == MPI_PROC_NULL)
            now[mine + 1] = now[mine];
        step();
    }
    double heat[2] = {0, 0}, all[2];
    for (long i = 1; i <= mine; i++) {
        heat[0] += now[i];
        heat[1] = now[i] > heat[1] ? now[i] : heat[1];
    }
    MPI_Reduce(&heat[0], &all[0], 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&heat[1], &all[1], 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("heat %.6f, hottest cell %.6f\n", all[0], all[1]);
    free(now);
    free(next);
    MPI_Finalize();
    return 0;
}
