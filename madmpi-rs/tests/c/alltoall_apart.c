/* np: 2 */
/* MPI_IN_PLACE where the blocks lie far apart: what is between them is no memory. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <sys/mman.h>

#define GAP (64L << 20)
#define N 4

static int rank, *low, *high;

static void fill(void) {
    for (int i = 0; i < N; i++) {
        low[i] = 100 * rank + i;
        high[i] = 100 * rank + 10 + i;
    }
}

/* Block i of rank j has come to block j of rank i. */
static void say(const char *what) {
    int ok = 1;
    for (int i = 0; i < N; i++)
        ok &= low[i] == 10 * rank + i && high[i] == 100 + 10 * rank + i;
    int all;
    MPI_Reduce(&ok, &all, 1, MPI_INT, MPI_LAND, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: %s\n", what, all ? "ok" : "wrong");
    fill();
}

int main(int argc, char **argv) {
    int counts[2] = {N, N}, ones[2] = {1, 1}, displs[2], zeros[2] = {0, 0}, block = N;
    MPI_Datatype types[2];
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char *memory = mmap(NULL, GAP, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, 4096, PROT_READ | PROT_WRITE) != 0 ||
        mprotect(memory + GAP - 4096, 4096, PROT_READ | PROT_WRITE) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    low = (int *)memory;
    high = (int *)(memory + GAP - 4096);
    displs[0] = 0;
    displs[1] = (int)(high - low);
    for (int i = 0; i < 2; i++) {
        MPI_Aint at;
        MPI_Get_address(i == 0 ? low : high, &at);
        MPI_Type_create_hindexed(1, &block, &at, MPI_INT, &types[i]);
        MPI_Type_commit(&types[i]);
    }
    fill();
    MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, low, counts, displs, MPI_INT, MPI_COMM_WORLD);
    say("alltoallv");
    MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, MPI_BOTTOM, ones, zeros, types, MPI_COMM_WORLD);
    say("alltoallw");
    MPI_Ialltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, low, counts, displs, MPI_INT, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    say("ialltoallv");
    MPI_Ialltoallw(MPI_IN_PLACE, NULL, NULL, NULL, MPI_BOTTOM, ones, zeros, types, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    say("ialltoallw");
    for (int i = 0; i < 2; i++)
        MPI_Type_free(&types[i]);
    MPI_Finalize();
    return 0;
}
