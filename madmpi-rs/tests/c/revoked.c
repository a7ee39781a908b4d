/* np: 2, peers: no */
/* What a revoked communicator refuses and ends: communicators that are being made, collectives made of messages, persistent
 * and partitioned requests, duplicates under way. The errors are those of the communicator: the handlers of MPI_COMM_WORLD
 * and MPI_COMM_SELF would end the job. */
#include "report.h"
#include <mpi-ext.h>
#include <unistd.h>

#define EXPECT(condition) expect(condition, #condition)
#define REVOKED(call) EXPECT(class_of(call) == MPIX_ERR_REVOKED)

static int class_of(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class;
}

/* A communicator whose errors are returned. */
static MPI_Comm fresh(void) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return comm;
}

/* Each rank is a side of it. */
/* Only rank 0 has a neighbour that it sends to. */
/* Rank 0 revokes it; both know at the return. */
static void create_group(void) {
    MPI_Comm comm = fresh(), new = MPI_COMM_WORLD;
    MPI_Group group;
    MPI_Comm_group(comm, &group);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        /* Rank 0 never calls it, which gives out the context. */
        REVOKED(MPI_Comm_create_group(comm, group, 3, &new));
        EXPECT(new == MPI_COMM_NULL);
    } else {
        usleep(20000); /* in most runs the other one waits then */
        EXPECT(MPIX_Comm_revoke(comm) == MPI_SUCCESS);
    }
    REVOKED(MPI_Comm_create_group(comm, group, 4, &new));
    MPI_Group_free(&group);
    MPI_Comm_free(&comm);
}

/* The error of a start, or of what it has started. */
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    create_group();
    report("MPI_Comm_create_group");
    MPI_Finalize();
    return 0;
}
