/* np: 4, peers: mpich */
/* Operations of several messages each, over and over: none is over before all of its messages are, whichever thread
   finds them. */
#include <mpi.h>
#include <stdio.h>

enum { ROUNDS = 2000 };

static void wait_by_tests(MPI_Request *request) {
    int over = 0;
    while (!over)
        MPI_Test(request, &over, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    int world, rank, side, wrong = 0;
    MPI_Comm half, inter;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world);
    side = world / 2;
    MPI_Comm_split(MPI_COMM_WORLD, side, world, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, side ? 0 : 2, 5, &inter);
    MPI_Comm_rank(inter, &rank);

    for (int round = 0; round < ROUNDS; round++) {
        int data[2], got[2] = {-1, -1};
        for (int to = 0; to < 2; to++)
            data[to] = 100 * round + 10 * rank + to;
        if (round % 2 == 0) {
            MPI_Alltoall(data, 1, MPI_INT, got, 1, MPI_INT, inter);
        } else {
            MPI_Ialltoall(data, 1, MPI_INT, got, 1, MPI_INT, inter, &request);
            wait_by_tests(&request);
        }
        for (int from = 0; from < 2; from++)
            wrong += got[from] != 100 * round + 10 * from + rank;

        /* Around the ring. */
        int next = (world + 1) % 4, last = (world + 3) % 4, out = 10 * round + world, in = -1;
        MPI_Isendrecv(&out, 1, MPI_INT, next, 3, &in, 1, MPI_INT, last, 3, MPI_COMM_WORLD, &request);
        if (round % 2 == 0)
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        else
            wait_by_tests(&request);
        wrong += in != 10 * round + last;
    }

    int all;
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (world == 0)
        printf("%d wrong\n", all);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
