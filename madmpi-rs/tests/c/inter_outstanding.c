/* np: 3, peers: mpich */
/* Several collectives between two groups at once, which end in different orders at different ranks. (Of Open MPI 4.1.4 beside load
 * one was wrong, once in many runs.) */
#include <mpi.h>
#include <stdio.h>

#define ROUNDS 30
#define LONG 20000

static int wrong;
static int many[LONG], result[LONG];

int main(int argc, char **argv) {
    int rank, size, here, there, total;
    MPI_Comm half, inter, dup;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 0 ? 1 : 0, 5, &inter);
    MPI_Comm_size(inter, &here);
    MPI_Comm_remote_size(inter, &there);
    for (int round = 0; round < ROUNDS; round++) {
        int one[3] = {1 + round, 100 + round, 1000 + round}, sums[2] = {-1, -1}, all[8], blocks[8], part = -1, root = -1;
        int counts[8] = {0};
        MPI_Request requests[8];
        for (int i = 0; i < LONG; i++)
            many[i] = i + round;
        for (int i = 0; i < 8; i++)
            blocks[i] = 10 * rank + i;
        MPI_Iallreduce(&one[0], &sums[0], 1, MPI_INT, MPI_SUM, inter, &requests[0]);
        MPI_Iallreduce(many, result, LONG, MPI_INT, MPI_SUM, inter, &requests[1]);
        MPI_Iallgather(&one[2], 1, MPI_INT, all, 1, MPI_INT, inter, &requests[2]);
        MPI_Ibarrier(inter, &requests[3]);
        MPI_Iallreduce(&one[1], &sums[1], 1, MPI_INT, MPI_SUM, inter, &requests[4]);
        MPI_Comm_idup(inter, &dup, &requests[5]);
        root = rank == 0 ? 7 + round : -1;
        MPI_Ibcast(&root, 1, MPI_INT, rank == 0 ? MPI_ROOT : 0, inter, &requests[6]);
        /* Both sides' counts add up to the same: two elements. */
        for (int i = 0; i < here; i++)
            counts[i] = 2 / here;
        int scattered[2] = {-1, -1};
        MPI_Ireduce_scatter(blocks, scattered, counts, MPI_INT, MPI_SUM, inter, &requests[7]);
        part = scattered[0];
        /* Each rank completes them in another order. */
        for (int i = 0; i < 8; i++)
            MPI_Wait(&requests[(rank ? 7 * (i + rank) : 3 * i) % 8], MPI_STATUS_IGNORE);
        part = scattered[0];
        wrong += sums[0] != there * (1 + round);
        wrong += sums[1] != there * (100 + round);
        for (int i = 0; i < LONG; i++)
            wrong += result[i] != there * (i + round);
        for (int i = 0; i < there; i++)
            wrong += all[i] != 1000 + round;
        wrong += root != 7 + round;
        wrong += rank == 0 ? scattered[0] != 10 + 20 || scattered[1] != 32 : part != rank - 1;
        /* The duplicate is one. */
        MPI_Allreduce(&one[0], &sums[0], 1, MPI_INT, MPI_SUM, dup);
        wrong += sums[0] != there * (1 + round);
        MPI_Comm_free(&dup);
    }
    MPI_Reduce(&wrong, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d wrong\n", total);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
