/* np: 4 */
/* Communicators made of others: duplicates, splits, parts; each has messages of its own. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static int compared(MPI_Comm a, MPI_Comm b) {
    int result;
    MPI_Comm_compare(a, b, &result);
    return result;
}

int main(int argc, char **argv) {
    int n, me, value, flag, length;
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Comm dup, part, other;
    MPI_Group world, group;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    /* Messages of one communicator are not seen in another. */
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    CHECK(compared(dup, MPI_COMM_WORLD) == MPI_CONGRUENT);
    CHECK(compared(dup, dup) == MPI_IDENT);
    if (rank == 0) {
        value = 1;
        MPI_Send(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
        value = 2;
        MPI_Send(&value, 1, MPI_INT, 1, 0, dup);
    } else if (rank == 1) {
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, dup, MPI_STATUS_IGNORE);
        CHECK(value == 2);
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(value == 1);
    }
    CHECK(round_trip(dup));

    /* Names. */
    MPI_Comm_get_name(MPI_COMM_WORLD, name, &length);
    CHECK(!strcmp(name, "MPI_COMM_WORLD") && length == (int)strlen(name));
    MPI_Comm_get_name(dup, name, &length);
    CHECK(length == 0 && name[0] == 0);
    MPI_Comm_set_name(dup, "the duplicate");
    MPI_Comm_get_name(dup, name, &length);
    CHECK(!strcmp(name, "the duplicate"));

    /* Two halves, the order turned round in each. */
    MPI_Comm_split(dup, rank % 2, -rank, &part);
    MPI_Comm_size(part, &n);
    MPI_Comm_rank(part, &me);
    CHECK(n == 2 && me == (rank < 2));
    CHECK(compared(part, dup) == MPI_UNEQUAL);
    CHECK(round_trip(part));
    MPI_Comm_free(&part);
    CHECK(part == MPI_COMM_NULL);

    /* Turned round as a whole. */
    MPI_Comm_split(dup, 5, size - rank, &part);
    CHECK(compared(part, dup) == MPI_SIMILAR);
    CHECK(round_trip(part));
    MPI_Comm_free(&part);

    /* Not all take part. */
    MPI_Comm_split(dup, rank == 2 ? MPI_UNDEFINED : 0, 0, &part);
    CHECK((part == MPI_COMM_NULL) == (rank == 2));
    if (part != MPI_COMM_NULL) {
        MPI_Comm_size(part, &n);
        CHECK(n == 3 && round_trip(part));
        MPI_Comm_free(&part);
    }

    /* Of groups: disjoint ones at once. */
    MPI_Comm_group(dup, &world);
    int pairs[2] = {rank < 2 ? 1 : 3, rank < 2 ? 0 : 2};
    MPI_Group_incl(world, 2, pairs, &group);
    MPI_Comm_create(dup, group, &part);
    MPI_Comm_rank(part, &me);
    CHECK(me == (rank + 1) % 2 && round_trip(part));
    MPI_Comm_free(&part);
    MPI_Group_free(&group);
    MPI_Group_incl(world, 2, (int[]){3, 0}, &group);
    MPI_Comm_create(dup, group, &part);
    CHECK((part == MPI_COMM_NULL) == (rank == 1 || rank == 2));
    if (part != MPI_COMM_NULL) {
        CHECK(round_trip(part));
        MPI_Comm_free(&part);
    }
    MPI_Group_free(&group);

    /* Only the members call: two disjoint groups at once, and then others. */
    MPI_Group_incl(world, 2, (int[]){rank < 2 ? 0 : 3, rank < 2 ? 1 : 2}, &group);
    MPI_Comm_create_group(dup, group, 17, &part);
    MPI_Comm_rank(part, &me);
    CHECK(me == (rank == 1 || rank == 2) && round_trip(part));
    MPI_Comm_free(&part);
    MPI_Group_free(&group);
    MPI_Group_free(&world);

    /* A message under way when its communicator is freed comes nevertheless. */
    MPI_Comm_dup(dup, &other);
    if (rank == 3) {
        value = 33;
        MPI_Send(&value, 1, MPI_INT, 2, 1, other);
    } else if (rank == 2) {
        value = 0;
        MPI_Recv(&value, 1, MPI_INT, 3, 1, other, MPI_STATUS_IGNORE);
        CHECK(value == 33);
    }
    MPI_Comm_free(&other);

    /* Two duplicates while something else goes on; attributes go with them. */
    MPI_Request requests[3];
    MPI_Comm both[2];
    int key, buffer = -1;
    void *kept;
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(dup, key, &key);
    MPI_Irecv(&buffer, 1, MPI_INT, (rank + 1) % size, 5, dup, &requests[1]);
    MPI_Comm_idup(dup, &both[0], &requests[0]);
    MPI_Comm_idup(dup, &both[1], &requests[2]);
    MPI_Send(&rank, 1, MPI_INT, (rank + size - 1) % size, 5, dup);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    CHECK(buffer == (rank + 1) % size);
    for (int i = 0; i < 2; i++) {
        CHECK(compared(both[i], dup) == MPI_CONGRUENT && round_trip(both[i]));
        MPI_Comm_get_attr(both[i], key, &kept, &flag);
        CHECK(flag && kept == &key);
        MPI_Comm_free(&both[i]);
    }
    MPI_Comm_delete_attr(dup, key);
    MPI_Comm_free_keyval(&key);

    MPI_Comm_test_inter(dup, &flag);
    CHECK(!flag);
    MPI_Comm_disconnect(&dup);
    CHECK(dup == MPI_COMM_NULL);
    MPI_Comm_dup(MPI_COMM_SELF, &dup);
    CHECK(compared(dup, MPI_COMM_SELF) == MPI_CONGRUENT && round_trip(dup));
    MPI_Comm_free(&dup);
    if (rank == 0)
        printf("communicators: fine\n");
    MPI_Finalize();
    return 0;
}
