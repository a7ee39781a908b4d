/* np: 2, peers: openmpi */
/* Accesses whose data are fewer than there is room for at the other side: short and long, in a row and in pieces. MPICH 4.0.2
 * ends with an assertion where they lie in pieces. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST 30000
static int rank, *window, own[MOST], got[MOST];
static MPI_Win win;

static void fill(void) {
    for (int i = 0; i < MOST; i++) {
        window[i] = -i;
        own[i] = i + 1;
        got[i] = -7;
    }
    MPI_Win_fence(0, win);
}

/* The sum of the elements, weighed by their places. */
static long sum(const int *all) {
    long total = 0;
    for (int i = 0; i < MOST; i++)
        total += (long)all[i] * (i % 97 + 1);
    return total;
}

static void tell(const char *what) {
    MPI_Win_fence(0, win);
    long sums[4] = {sum(window), sum(got)};
    MPI_Gather(rank ? sums : MPI_IN_PLACE, 2, MPI_LONG, sums, 2, MPI_LONG, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: windows %ld and %ld, got %ld and %ld\n", what, sums[0], sums[2], sums[1], sums[3]);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(sizeof own, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
    MPI_Datatype three, apart;
    MPI_Type_contiguous(3, MPI_INT, &three);
    MPI_Type_vector(3, 1, 2, MPI_INT, &apart); /* 3 of 5 */
    MPI_Type_commit(&three);
    MPI_Type_commit(&apart);
    for (int n = 2; n < 10000; n = n * 40 + 4) { /* the last element of three is not whole */
        fill();
        if (rank == 0)
            MPI_Put(own, n, MPI_INT, 1, 5, n + 2, MPI_INT, win);
        tell("put into a row");
        fill();
        if (rank == 0)
            MPI_Put(own, n, MPI_INT, 1, 5, n / 3 + 1, apart, win);
        tell("put into pieces");
        fill();
        if (rank == 0)
            MPI_Put(own, n / 3, apart, 1, 5, n, MPI_INT, win);
        tell("put pieces");
        fill();
        if (rank == 0)
            MPI_Get(got, n + 3, MPI_INT, 1, 7, n, MPI_INT, win);
        tell("get into a row");
        fill();
        if (rank == 0)
            MPI_Get(got, n / 3 + 2, apart, 1, 7, n, MPI_INT, win);
        tell("get into pieces");
        fill();
        if (rank == 0)
            MPI_Get(got, n, MPI_INT, 1, 7, n / 3, apart, win);
        tell("get pieces");
        fill();
        if (rank == 0)
            MPI_Accumulate(own, n, MPI_INT, 1, 9, n + 8, MPI_INT, MPI_SUM, win);
        tell("accumulate into a row");
        fill();
        if (rank == 0)
            MPI_Accumulate(own, n / 3, three, 1, 9, n / 3 + 4, apart, MPI_SUM, win);
        tell("accumulate into pieces");
        fill();
        if (rank == 1) /* at itself */
            MPI_Put(own, n, MPI_INT, 1, 5, n / 3 + 1, apart, win);
        tell("put at home");
    }
    MPI_Type_free(&three);
    MPI_Type_free(&apart);
    MPI_Win_free(&win);
    MPI_Finalize();
}
