/* np: 3, peers: no */
/* MPI_Intercomm_create ends when the communicator of a side, or the one over which the leaders reach each other, is revoked
 * while a leader waits for the other one. */
#include "classes.h"
#include "report.h"
#include <mpi-ext.h>
#include <unistd.h>

#define REVOKED(call) EXPECT(class_of(call) == MPIX_ERR_REVOKED)

/* Rank 0 waits for rank 2, which never calls; `revoker` revokes one of the two communicators. */
static void waits(MPI_Comm local, MPI_Comm peer, int revoker, MPI_Comm revoked) {
    MPI_Comm inter = MPI_COMM_WORLD;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == revoker) {
        usleep(20000); /* in most runs rank 0 waits then */
        EXPECT(MPIX_Comm_revoke(revoked) == MPI_SUCCESS);
    } else if (rank == 0) {
        REVOKED(MPI_Intercomm_create(local, 0, peer, 2, 7, &inter));
        EXPECT(inter == MPI_COMM_NULL);
        REVOKED(MPI_Intercomm_create(local, 0, peer, 2, 8, &inter));
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    MPI_Comm local, alone, peer, inter;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, rank == 2, rank, &local);
    MPI_Comm_split(MPI_COMM_WORLD, rank, rank, &alone);
    MPI_Comm_dup(MPI_COMM_WORLD, &peer);
    MPI_Comm_set_errhandler(local, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(alone, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(peer, MPI_ERRORS_RETURN);
    waits(local, peer, 1, local);
    report("the communicator of a side");
    if (rank != 1) {
        EXPECT(MPI_Intercomm_create(alone, 0, peer, 2 - rank, 9, &inter) == MPI_SUCCESS);
        MPI_Comm_free(&inter);
    }
    report("the other one afterwards");
    waits(alone, peer, 2, peer);
    report("the communicator of the leaders");
    MPI_Comm_free(&local);
    MPI_Comm_free(&alone);
    MPI_Comm_free(&peer);
    MPI_Finalize();
    return 0;
}
