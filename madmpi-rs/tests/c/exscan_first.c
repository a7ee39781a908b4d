/* np: 1 2 3, peers: openmpi, peers-np: 3 */
/* The first rank of an exclusive scan has no result, and no room for it. MPICH 4.0.2 asks for some. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int count = 1; count <= 3000; count += 2999) {
        static int own[3000], before[3000];
        for (int i = 0; i < count; i++)
            own[i] = rank + i + 1;
        MPI_Exscan(own, rank ? before : NULL, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Request request;
        static int again[3000];
        MPI_Iexscan(own, rank ? again : NULL, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < count && rank; i++) {
            int sum = rank * (rank + 1) / 2 + i * rank;
            if (before[i] != sum || again[i] != sum)
                printf("rank %d, %d of %d: %d and %d, not %d\n", rank, i, count, before[i], again[i], sum);
        }
        if (own[0] != rank + 1)
            printf("rank %d: its contribution was written\n", rank);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("each has the sum of those before it\n");
    MPI_Finalize();
}
