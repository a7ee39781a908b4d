/* np: 4, peers: openmpi */
/* Two groups of one job connect over a port, several times; messages, collectives, merging, groups, windows, and the end. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: not so: %s\n", __LINE__, #what); fflush(stdout); MPI_Abort(MPI_COMM_WORLD, 1); } } while (0)

static int rank;
static MPI_Comm side;

/* The even ones accept, the odd ones connect; the name goes from 0 to 1 by a message. */
static MPI_Comm together(void) {
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm inter;
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        CHECK(strlen(port) > 0);
        MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (rank % 2 == 0)
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, side, &inter);
    else
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, side, &inter);
    if (rank == 0)
        MPI_Close_port(port);
    return inter;
}

static void messages(MPI_Comm inter) {
    static int long_out[100000], long_in[100000];
    int me, n, theirs = -1, i;
    MPI_Status status;
    MPI_Request requests[2];
    MPI_Comm_rank(inter, &me);
    MPI_Comm_remote_size(inter, &n);
    CHECK(n == 2 && me == rank / 2);
    MPI_Sendrecv(&rank, 1, MPI_INT, 1 - me, 5, &theirs, 1, MPI_INT, MPI_ANY_SOURCE, 5, inter, &status);
    CHECK(status.MPI_SOURCE == 1 - me && status.MPI_TAG == 5);
    CHECK(theirs == 2 * (1 - me) + (rank + 1) % 2);
    for (i = 0; i < 100000; i++)
        long_out[i] = rank * 100000 + i;
    /* One over the connection, one over the job, waited for together. */
    MPI_Irecv(long_in, 100000, MPI_INT, me, 6, inter, &requests[0]);
    MPI_Irecv(&theirs, 1, MPI_INT, (rank + 3) % 4, 7, MPI_COMM_WORLD, &requests[1]);
    MPI_Send(&rank, 1, MPI_INT, (rank + 1) % 4, 7, MPI_COMM_WORLD);
    MPI_Send(long_out, 100000, MPI_INT, me, 6, inter);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(theirs == (rank + 3) % 4);
    for (i = 0; i < 100000; i++)
        CHECK(long_in[i] == (rank ^ 1) * 100000 + i);
}

static void collectives(MPI_Comm inter) {
    int sum = 0, value = rank, all[2] = {-1, -1};
    MPI_Request request;
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, inter);
    CHECK(sum == (rank % 2 ? 0 + 2 : 1 + 3));
    MPI_Allgather(&value, 1, MPI_INT, all, 1, MPI_INT, inter);
    CHECK(all[0] == (rank % 2 ? 0 : 1) && all[1] == (rank % 2 ? 2 : 3));
    MPI_Ibarrier(inter, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void merged(MPI_Comm inter) {
    MPI_Comm all, dup, half, again;
    MPI_Group world, group, evens, part;
    MPI_Win win;
    int me, n, result, i, ranks[4], there[4], *memory, got = -1, two[2] = {1, 0};
    long sum = 0, value = 1 << rank;
    MPI_Intercomm_merge(inter, rank % 2, &all);
    MPI_Comm_size(all, &n);
    MPI_Comm_rank(all, &me);
    CHECK(n == 4 && me == rank / 2 + 2 * (rank % 2));
    MPI_Allreduce(&value, &sum, 1, MPI_LONG, MPI_SUM, all);
    CHECK(sum == 15);
    for (i = 0; i < 50; i++) {
        long x = me == i % 4 ? i : -1;
        MPI_Bcast(&x, 1, MPI_LONG, i % 4, all);
        CHECK(x == i);
        MPI_Barrier(all);
    }

    /* The same processes, in another order. */
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Comm_group(all, &group);
    MPI_Group_compare(world, group, &result);
    CHECK(result == MPI_SIMILAR);
    for (i = 0; i < 4; i++)
        ranks[i] = i;
    MPI_Group_translate_ranks(group, 4, ranks, world, there);
    CHECK(there[0] == 0 && there[1] == 2 && there[2] == 1 && there[3] == 3);
    MPI_Group_rank(group, &n);
    CHECK(n == me);
    MPI_Comm_compare(MPI_COMM_WORLD, all, &result);
    CHECK(result == MPI_SIMILAR);
    MPI_Comm_group(side, &evens);
    MPI_Group_intersection(group, evens, &part);
    MPI_Group_compare(part, evens, &result);
    CHECK(result == MPI_IDENT);
    MPI_Group_free(&part);
    MPI_Group_difference(group, evens, &part);
    MPI_Group_size(part, &n);
    CHECK(n == 2);
    MPI_Group_free(&part);
    /* A group of the job's communicators makes a part of the merged one, and the other way round. */
    MPI_Comm_create(all, evens, &half);
    MPI_Comm_compare(half, side, &result);
    CHECK(result == MPI_CONGRUENT);
    MPI_Comm_free(&half);
    MPI_Group_incl(group, 2, two, &part);
    MPI_Comm_create(MPI_COMM_WORLD, part, &half);
    if (rank == 0 || rank == 2) {
        MPI_Comm_rank(half, &n);
        CHECK(n == (rank == 0));
        MPI_Comm_free(&half);
    } else {
        CHECK(half == MPI_COMM_NULL);
    }
    MPI_Group_free(&part);

    MPI_Comm_dup(all, &dup);
    MPI_Comm_split(dup, me / 2, me, &half);
    MPI_Comm_rank(half, &n);
    CHECK(n == me % 2);
    /* The halves of the merged one, and those of the job, become two sides again. */
    MPI_Intercomm_create(half, 0, dup, me / 2 ? 0 : 2, 9, &again);
    MPI_Comm_remote_size(again, &n);
    CHECK(n == 2);
    collectives(again);
    MPI_Comm_free(&again);
    MPI_Intercomm_create(side, 0, all, me / 2 ? 0 : 2, 9, &again);
    MPI_Comm_remote_size(again, &n);
    CHECK(n == 2);
    MPI_Comm_free(&again);
    MPI_Comm_free(&half);
    MPI_Comm_free(&dup);

    /* One-sided, over memory that was not shared when the processes started. */
    MPI_Win_allocate(4 * sizeof(int), sizeof(int), MPI_INFO_NULL, all, &memory, &win);
    memset(memory, 0, 4 * sizeof(int));
    MPI_Win_fence(0, win);
    for (i = 0; i < 4; i++)
        MPI_Put(&me, 1, MPI_INT, i, me, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    for (i = 0; i < 4; i++)
        CHECK(memory[i] == i);
    MPI_Win_fence(0, win);
    MPI_Win_lock_all(0, win);
    n = 1;
    MPI_Fetch_and_op(&n, &got, MPI_INT, (me + 1) % 4, 3, MPI_SUM, win);
    MPI_Win_flush_all(win);
    CHECK(got == 3);
    MPI_Win_unlock_all(win);
    MPI_Win_fence(0, win);
    CHECK(memory[3] == 4);
    MPI_Win_free(&win);

    MPI_Group_free(&world);
    MPI_Group_free(&group);
    MPI_Group_free(&evens);
    MPI_Comm_disconnect(&all);
    CHECK(all == MPI_COMM_NULL);
}

int main(int argc, char **argv) {
    MPI_Comm first, second;
    int round;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &side);
    first = together();
    messages(first);
    collectives(first);
    merged(first);
    /* A second connection between the same processes is apart from the first. */
    second = together();
    messages(second);
    messages(first);
    MPI_Comm_disconnect(&first);
    collectives(second);
    MPI_Comm_disconnect(&second);
    for (round = 0; round < 3; round++) {
        first = together();
        collectives(first);
        MPI_Comm_disconnect(&first);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    /* One that is not disconnected ends with the program. */
    first = together();
    if (rank == 0)
        printf("all connected, and apart again\n");
    MPI_Comm_free(&side);
    MPI_Finalize();
    return 0;
}
