/* np: 4 */
/* Every collective some tens of times on one communicator after the other, short and long, in place and not: past the first
 * few, which members may do in another way than those after. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: not so: %s\n", __LINE__, #what); MPI_Abort(MPI_COMM_WORLD, 1); } } while (0)

enum { LONG = 20000, ROUNDS = 12 };

static int calls;

/* Composition of maps x -> a x + b: associative, not commutative. `calls` is this rank's own. */
static void compose(void *in, void *inout, int *len, MPI_Datatype *type)
{
    unsigned *left = in, *into = inout;
    (void)type;
    for (int i = 0; i < *len; i++, left += 2, into += 2) {
        unsigned a = left[0] * into[0], b = left[1] * into[0] + into[1];
        into[0] = a;
        into[1] = b;
    }
    calls++;
}

static unsigned value(int rank, int i, int round)
{
    return (unsigned)(rank * 7919 + i * 31 + round * 101 + 1);
}

static void fill(unsigned *data, int rank, int count, int round)
{
    for (int i = 0; i < count; i++)
        data[i] = value(rank, i, round);
}

/* The composition of what ranks `from` to `to` have at `i`. */
static void composed(int from, int to, int i, int round, unsigned out[2])
{
    unsigned next[2];
    int one = 1;
    out[0] = value(from, 2 * i, round);
    out[1] = value(from, 2 * i + 1, round);
    for (int rank = from + 1; rank < to; rank++) {
        next[0] = value(rank, 2 * i, round);
        next[1] = value(rank, 2 * i + 1, round);
        compose(out, next, &one, NULL);
        calls--;
        memcpy(out, next, sizeof next);
    }
}

static void all_of(MPI_Comm comm, int count, MPI_Datatype pair, MPI_Op op)
{
    int me, n;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    unsigned *own = malloc((size_t)n * 2 * count * sizeof *own), *all = malloc((size_t)n * 2 * count * sizeof *all);
    unsigned out[2];
    for (int round = 0; round < ROUNDS; round++) {
        int root = round % n, pairs = count, in_place = round % 2;
        MPI_Barrier(comm);
        fill(own, me, 2 * count, me == root ? round : -1);
        MPI_Bcast(own, 2 * count, MPI_UNSIGNED, root, comm);
        CHECK(own[2 * count - 1] == value(root, 2 * count - 1, round));

        fill(own, me, 2 * pairs, round);
        if (in_place) {
            MPI_Allreduce(MPI_IN_PLACE, own, pairs, pair, op, comm);
            memcpy(all, own, 2 * (size_t)pairs * sizeof *own);
        } else {
            MPI_Allreduce(own, all, pairs, pair, op, comm);
        }
        for (int i = 0; i < pairs; i += 1 + pairs / 3) {
            composed(0, n, i, round, out);
            CHECK(all[2 * i] == out[0] && all[2 * i + 1] == out[1]);
        }

        fill(own, me, 2 * pairs, round);
        if (in_place && me == root) {
            memcpy(all, own, 2 * (size_t)pairs * sizeof *own);
            MPI_Reduce(MPI_IN_PLACE, all, pairs, pair, op, root, comm);
        } else {
            MPI_Reduce(own, all, pairs, pair, op, root, comm);
        }
        composed(0, n, pairs - 1, round, out);
        CHECK(me != root || (all[2 * pairs - 2] == out[0] && all[2 * pairs - 1] == out[1]));

        fill(own, me, 2 * pairs, round);
        MPI_Scan(own, all, pairs, pair, op, comm);
        composed(0, me + 1, pairs / 2, round, out);
        CHECK(all[pairs / 2 * 2] == out[0]);
        fill(all, me, 2 * pairs, round);
        MPI_Exscan(MPI_IN_PLACE, all, pairs, pair, op, comm);
        if (me > 0) {
            composed(0, me, pairs / 2, round, out);
            CHECK(all[pairs / 2 * 2] == out[0]);
        }

        fill(own, me, count, round);
        if (in_place && me == root) {
            fill(all + (size_t)me * count, me, count, round);
            MPI_Gather(MPI_IN_PLACE, 0, MPI_UNSIGNED, all, count, MPI_UNSIGNED, root, comm);
        } else {
            MPI_Gather(own, count, MPI_UNSIGNED, all, count, MPI_UNSIGNED, root, comm);
        }
        for (int rank = 0; me == root && rank < n; rank++)
            CHECK(all[(size_t)(rank + 1) * count - 1] == value(rank, count - 1, round));

        memset(all, 0xee, (size_t)n * count * sizeof *all);
        if (in_place)
            fill(all + (size_t)me * count, me, count, round);
        MPI_Allgather(in_place ? MPI_IN_PLACE : own, count, MPI_UNSIGNED, all, count, MPI_UNSIGNED, comm);
        for (int rank = 0; rank < n; rank++)
            CHECK(all[(size_t)rank * count] == value(rank, 0, round));

        for (int rank = 0; me == root && rank < n; rank++)
            fill(all + (size_t)rank * count, rank, count, round);
        MPI_Scatter(all, count, MPI_UNSIGNED, own, count, MPI_UNSIGNED, root, comm);
        CHECK(own[count - 1] == value(me, count - 1, round));

        for (int rank = 0; rank < n; rank++)
            fill((in_place ? all : own) + (size_t)rank * count, me * n + rank, count, round);
        MPI_Alltoall(in_place ? MPI_IN_PLACE : own, count, MPI_UNSIGNED, all, count, MPI_UNSIGNED, comm);
        for (int rank = 0; rank < n; rank++)
            CHECK(all[(size_t)(rank + 1) * count - 1] == value(rank * n + me, count - 1, round));

        /* Rank r gets r + 1 elements from each, at places in the reverse order. */
        int counts[4], at[4], sums[4], displacements[4], given = 0;
        for (int rank = 0; rank < n; rank++) {
            counts[rank] = rank + 1;
            at[rank] = given;
            given += rank + 1;
            sums[rank] = me + 1;
            displacements[rank] = (n - 1 - rank) * (me + 1);
        }
        for (int rank = 0; rank < n; rank++)
            fill(own + at[rank], me * n + rank, counts[rank], round);
        MPI_Alltoallv(own, counts, at, MPI_UNSIGNED, all, sums, displacements, MPI_UNSIGNED, comm);
        for (int rank = 0; rank < n; rank++)
            CHECK(all[displacements[rank] + me] == value(rank * n + me, me, round));

        fill(own, me, 2 * given, round);
        MPI_Reduce_scatter(in_place ? MPI_IN_PLACE : own, in_place ? own : all, counts, pair, op, comm);
        composed(0, n, at[me] + me, round, out);
        CHECK((in_place ? own : all)[2 * me] == out[0]);
    }
    free(own);
    free(all);
}

int main(int argc, char **argv)
{
    int me, n;
    MPI_Comm dup, half, one, between;
    MPI_Datatype pair;
    MPI_Op op;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MPI_Type_contiguous(2, MPI_UNSIGNED, &pair);
    MPI_Type_commit(&pair);
    MPI_Op_create(compose, 0, &op);

    all_of(MPI_COMM_WORLD, 10, pair, op);
    all_of(MPI_COMM_WORLD, LONG, pair, op);
    for (int round = 0; round < 3; round++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &dup);
        all_of(dup, 11 + round, pair, op);
        /* Neighbours, then every other rank; the order is turned round. */
        MPI_Comm_split(dup, round % 2 ? me % 2 : me / 2, n - me, &half);
        all_of(half, round ? 12 : LONG, pair, op);
        /* The first of the other half: the one with its highest rank here. */
        int sum = 0, local, leader = round % 2 ? (me % 2 ? 2 : 3) : (me < 2 ? 3 : 1);
        MPI_Intercomm_create(half, 0, dup, leader, 5, &between);
        for (int i = 0; i < ROUNDS; i++) {
            local = me + i;
            MPI_Allreduce(&local, &sum, 1, MPI_INT, MPI_SUM, between);
            CHECK(sum == (round % 2 ? (me % 2 ? 2 : 4) : (me < 2 ? 5 : 1)) + 2 * i);
            MPI_Barrier(half);
            MPI_Barrier(between);
        }
        MPI_Intercomm_merge(between, 0, &one);
        all_of(one, 9, pair, op);
        MPI_Comm_free(&one);
        MPI_Comm_free(&between);
        MPI_Comm_free(&half);
        MPI_Comm_free(&dup);
    }
    /* Each rank's operator was called in this rank's own calls, if at all: the sum is what all counted. */
    int total = 0;
    MPI_Reduce(&calls, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (me == 0)
        printf("all is as it should be%s\n", total > 0 ? "" : ", but the operator was never called");
    MPI_Op_free(&op);
    MPI_Type_free(&pair);
    MPI_Finalize();
    return 0;
}
