/* np: 4, peers: no */
/* Thousands of communicators, freed in an order of their own, so that contexts are used again. Slow elsewhere. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: not so: %s\n", __LINE__, #what); MPI_Abort(MPI_COMM_WORLD, 1); } } while (0)

static int rank, size;

/* A token that goes round: all members have to be there, and in this order. */
static int round_trip(MPI_Comm comm) {
    int me, n, token = 0;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    if (n == 1)
        return 1;
    if (me == 0) {
        MPI_Send(&token, 1, MPI_INT, 1, 7, comm);
        MPI_Recv(&token, 1, MPI_INT, n - 1, 7, comm, MPI_STATUS_IGNORE);
        return token == n - 1;
    }
    MPI_Recv(&token, 1, MPI_INT, me - 1, 7, comm, MPI_STATUS_IGNORE);
    token++;
    MPI_Send(&token, 1, MPI_INT, (me + 1) % n, 7, comm);
    return token == me;
}

int main(int argc, char **argv) {
    MPI_Comm other, part;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 3000; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &other);
        if (i % 100 == 0) {
            MPI_Comm_split(other, rank / 2, 0, &part);
            CHECK(round_trip(other) && round_trip(part));
            if (i % 200 == 0) {
                MPI_Comm_free(&other);
                MPI_Comm_free(&part);
                continue;
            }
            MPI_Comm_free(&part);
        }
        MPI_Comm_free(&other);
    }

    if (rank == 0)
        printf("contexts: fine\n");
    MPI_Finalize();
    return 0;
}
