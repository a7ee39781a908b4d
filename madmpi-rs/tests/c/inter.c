/* np: 4, peers: mpich */
/* Communicators of two sides: made, duplicated, divided, merged; messages go to the other side. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: not so: %s\n", __LINE__, #what); MPI_Abort(MPI_COMM_WORLD, 1); } } while (0)

static int rank;

/* Every process sends to the one of the same rank on the other side, if there is one. */
static void exchange(MPI_Comm inter) {
    int me, there, theirs = -1, flag;
    MPI_Status status;
    MPI_Comm_test_inter(inter, &flag);
    CHECK(flag);
    MPI_Comm_rank(inter, &me);
    MPI_Comm_remote_size(inter, &there);
    if (me >= there)
        return;
    if (rank % 2) {
        MPI_Send(&rank, 1, MPI_INT, me, 3, inter);
        MPI_Recv(&theirs, 1, MPI_INT, MPI_ANY_SOURCE, 3, inter, &status);
    } else {
        MPI_Recv(&theirs, 1, MPI_INT, MPI_ANY_SOURCE, 3, inter, &status);
        MPI_Send(&rank, 1, MPI_INT, me, 3, inter);
    }
    CHECK(status.MPI_SOURCE == me);
    CHECK(theirs % 2 != rank % 2);
}

int main(int argc, char **argv) {
    int n, me, result;
    MPI_Comm side, inter, dup, part, merged;
    MPI_Group here, there;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    /* Odd and even ones; the last of each leads, tags apart. */
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &side);
    MPI_Intercomm_create(side, 1, MPI_COMM_WORLD, rank % 2 ? 2 : 3, 99, &inter);
    MPI_Comm_size(inter, &n);
    CHECK(n == 2);
    MPI_Comm_remote_size(inter, &n);
    CHECK(n == 2);
    exchange(inter);

    MPI_Comm_dup(inter, &dup);
    MPI_Comm_compare(dup, inter, &result);
    CHECK(result == MPI_CONGRUENT);
    exchange(dup);
    MPI_Comm_compare(side, inter, &result);
    CHECK(result == MPI_UNEQUAL);

    /* Divided: the ones of each side with the same number are together. */
    MPI_Comm_split(inter, rank / 2, 0, &part);
    MPI_Comm_size(part, &n);
    MPI_Comm_remote_size(part, &me);
    CHECK(n == 1 && me == 1);
    exchange(part);
    MPI_Comm_free(&part);
    /* No process on the other side: nothing. */
    MPI_Comm_split(inter, rank % 2, 0, &part);
    CHECK(part == MPI_COMM_NULL);

    /* A part of one side with all of the other. */
    MPI_Comm_group(inter, &here);
    if (rank % 2)
        MPI_Group_incl(here, 1, (int[]){1}, &there);
    else
        MPI_Group_incl(here, 2, (int[]){1, 0}, &there);
    MPI_Comm_create(inter, there, &part);
    CHECK((part == MPI_COMM_NULL) == (rank == 1));
    if (part != MPI_COMM_NULL) {
        MPI_Comm_remote_size(part, &n);
        CHECK(n == (rank % 2 ? 2 : 1));
        exchange(part);
        MPI_Comm_free(&part);
    }
    MPI_Group_free(&here);
    MPI_Group_free(&there);

    /* As one, the odd ones first. */
    MPI_Intercomm_merge(inter, rank % 2 == 0, &merged);
    MPI_Comm_rank(merged, &me);
    CHECK(me == (rank % 2 ? rank / 2 : 2 + rank / 2));
    if (me == 0)
        MPI_Send(&me, 1, MPI_INT, 3, 0, merged);
    else if (me == 3) {
        MPI_Recv(&n, 1, MPI_INT, 0, 0, merged, MPI_STATUS_IGNORE);
        CHECK(n == 0);
    }
    MPI_Comm_free(&merged);
    MPI_Comm_free(&inter);
    exchange(dup);
    MPI_Request request;
    MPI_Comm_idup(dup, &part, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    exchange(part);
    MPI_Comm_free(&part);
    MPI_Comm_disconnect(&dup);
    MPI_Comm_free(&side);
    if (rank == 0)
        printf("intercommunicators: fine\n");
    MPI_Finalize();
    return 0;
}
