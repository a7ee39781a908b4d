/* np: 3, peers: no */
/* Persistent collectives that each rank starts in an order of its own: they match by the order of their making. (Open
   MPI 4.1 has none, and a `MPI_Gather_init` of MPICH 4.0 alone gathers wrong data.) */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define KINDS 6
#define ROUNDS 40

static int wrong;

/* Starts all, each rank in another order, with other collectives in between. */
static void start_all(int rank, int round, MPI_Request *requests, int count, MPI_Comm comm) {
    int plain = 1, sum = 0, size;
    for (int i = 0; i < count; i++) {
        int which = rank % 2 ? (i + rank + round) % count : count - 1 - (i + round) % count;
        MPI_Start(&requests[which]);
        if (i == count / 2 && comm != MPI_COMM_NULL) {
            MPI_Comm_size(comm, &size);
            MPI_Allreduce(&plain, &sum, 1, MPI_INT, MPI_SUM, comm);
            wrong += sum != size;
        }
    }
}

int main(int argc, char **argv) {
    int rank, size, mine[KINDS], all[8], sums[2], root, reduced, blocks[8], around[2][2], got[2][2], total;
    MPI_Request requests[KINDS + 2];
    MPI_Comm ring, half, inter;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, (int[]){1}, 0, &ring);
    MPI_Allreduce_init(&mine[0], &sums[0], 1, MPI_INT, MPI_SUM, ring, MPI_INFO_NULL, &requests[0]);
    MPI_Allreduce_init(&mine[1], &sums[1], 1, MPI_INT, MPI_SUM, ring, MPI_INFO_NULL, &requests[1]);
    MPI_Bcast_init(&root, 1, MPI_INT, 1, ring, MPI_INFO_NULL, &requests[2]);
    MPI_Reduce_init(&mine[3], &reduced, 1, MPI_INT, MPI_MAX, 2, ring, MPI_INFO_NULL, &requests[3]);
    MPI_Allgather_init(&mine[4], 1, MPI_INT, all, 1, MPI_INT, ring, MPI_INFO_NULL, &requests[4]);
    MPI_Gather_init(&mine[5], 1, MPI_INT, blocks, 1, MPI_INT, 0, ring, MPI_INFO_NULL, &requests[5]);
    for (int i = 0; i < 2; i++)
        MPI_Neighbor_alltoall_init(around[i], 1, MPI_INT, got[i], 1, MPI_INT, ring, MPI_INFO_NULL, &requests[KINDS + i]);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < KINDS; i++)
            mine[i] = 10000 * i + 10 * round + rank;
        for (int i = 0; i < 4; i++)
            around[i / 2][i % 2] = 1000 * round + 100 * i + rank;
        root = rank == 1 ? 77 + round : -1;
        start_all(rank, round, requests, KINDS + 2, ring);
        MPI_Waitall(KINDS + 2, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < 2; i++)
            wrong += sums[i] != size * (10000 * i + 10 * round) + size * (size - 1) / 2;
        wrong += root != 77 + round;
        wrong += rank == 2 && reduced != 30000 + 10 * round + size - 1;
        for (int r = 0; r < size; r++) {
            wrong += all[r] != 40000 + 10 * round + r;
            wrong += rank == 0 && blocks[r] != 50000 + 10 * round + r;
        }
        for (int i = 0; i < 2; i++) {
            wrong += got[i][0] != 1000 * round + 100 * (2 * i + 1) + (rank + size - 1) % size;
            wrong += got[i][1] != 1000 * round + 100 * 2 * i + (rank + 1) % size;
        }
    }
    for (int i = 0; i < KINDS + 2; i++)
        MPI_Request_free(&requests[i]);

    /* Between two groups. */
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 0 ? 1 : 0, 5, &inter);
    for (int i = 0; i < 3; i++)
        MPI_Allreduce_init(&mine[i], &all[i], 1, MPI_INT, MPI_SUM, inter, MPI_INFO_NULL, &requests[i]);
    MPI_Barrier_init(inter, MPI_INFO_NULL, &requests[3]);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 3; i++)
            mine[i] = 1000 * i + round;
        start_all(rank, round, requests, 4, MPI_COMM_NULL);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < 3; i++)
            wrong += all[i] != (1000 * i + round) * (rank == 0 ? size - 1 : 1);
    }
    for (int i = 0; i < 4; i++)
        MPI_Request_free(&requests[i]);

    /* More of them than are kept apart, one after the other. */
    for (int i = 0; i < 40000; i++) {
        MPI_Barrier_init(ring, MPI_INFO_NULL, &requests[0]);
        MPI_Request_free(&requests[0]);
    }
    MPI_Reduce(&wrong, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d wrong\n", total);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
    MPI_Comm_free(&ring);
    MPI_Finalize();
    return 0;
}
