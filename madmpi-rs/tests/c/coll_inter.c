/* np: 4 */
/* Collectives between the two groups of an intercommunicator (ranks 0 and 2; ranks 1 and 3), and persistent ones. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int world, rank, size, side, wrong = 0, data[8] = {0}, got[8] = {0};
    MPI_Comm half, inter;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world);
    side = world % 2;
    MPI_Comm_split(MPI_COMM_WORLD, side, world, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 5, &inter);
    MPI_Comm_rank(inter, &rank);
    MPI_Comm_remote_size(inter, &size);

    MPI_Barrier(inter);
    for (int round = 0; round < 12; round++) {
        int from = side == 0 ? (rank == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0, sum = -1, own = round + world;
        data[0] = side == 0 ? round : -1;
        MPI_Bcast(data, 1, MPI_INT, from, inter);
        wrong += side == 1 && data[0] != round;
        MPI_Reduce(&own, &sum, 1, MPI_INT, MPI_SUM, from, inter);
        wrong += from == MPI_ROOT && sum != 2 * round + 4;
    }

    /* Rank 1 of side 0 has something for side 1. */
    int root = side == 0 ? (rank == 1 ? MPI_ROOT : MPI_PROC_NULL) : 1;
    data[0] = side == 0 && rank == 1 ? 42 : -1;
    MPI_Bcast(data, 1, MPI_INT, root, inter);
    wrong += side == 1 && data[0] != 42;

    /* And gets something of theirs. */
    data[0] = 100 + world;
    MPI_Gather(data, 1, MPI_INT, got, 1, MPI_INT, root, inter);
    wrong += root == MPI_ROOT && (got[0] != 101 || got[1] != 103);
    MPI_Reduce(data, got, 1, MPI_INT, MPI_SUM, root, inter);
    wrong += root == MPI_ROOT && got[0] != 204;
    /* Beside the root the type means nothing, nor whether the operator takes it. */
    MPI_Reduce(data, got, 1, root == MPI_PROC_NULL ? MPI_BYTE : MPI_INT, MPI_MAX, root, inter);
    wrong += root == MPI_ROOT && got[0] != 103;
    got[0] = 7;
    got[1] = 8;
    MPI_Scatter(got, 1, MPI_INT, data, 1, MPI_INT, root, inter);
    wrong += side == 1 && data[0] != 7 + rank;

    /* Each side gets what is of the other. */
    data[0] = world;
    data[1] = world * 10;
    MPI_Request request;
    MPI_Iallreduce(data, got, 2, MPI_INT, MPI_SUM, inter, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    wrong += side == 0 ? got[0] != 4 || got[1] != 40 : got[0] != 2 || got[1] != 20;
    MPI_Allgather(data, 1, MPI_INT, got, 1, MPI_INT, inter);
    wrong += got[0] != 1 - side || got[1] != 3 - side;
    data[0] = 10 * world;
    data[1] = 10 * world + 1;
    MPI_Alltoall(data, 1, MPI_INT, got, 1, MPI_INT, inter);
    wrong += got[0] != 10 * (1 - side) + rank || got[1] != 10 * (3 - side) + rank;
    int counts[2] = {1, 1};
    MPI_Reduce_scatter(data, got, counts, MPI_INT, MPI_SUM, inter);
    wrong += got[0] != (side == 0 ? 40 : 20) + 2 * rank;

    int all;
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (world == 0)
        printf("%d wrong\n", all);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
