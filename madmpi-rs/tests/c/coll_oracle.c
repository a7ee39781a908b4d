/* np: 4 */
/* Collectives with random communicators, roots, counts, types and operators, in place or not, blocking, as requests and
 * persistent, against what each process works out alone from the same random numbers. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 400
#define MOST 64

static unsigned long long state;
static int errors, rank, size;

static unsigned next_random(unsigned below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(state >> 33) % below;
}

/* What rank `who` contributes at `index` in `round`. */
static int value(int round, int who, int index) { return (round * 31 + who * 1009 + index * 7) % 1000 - 500; }

static int combine(int op, int a, int b) { return op == 0 ? a + b : op == 1 ? (a > b ? a : b) : op == 2 ? (a < b ? a : b) : a ^ b; }

static void expect(int ok, const char *what, int round) {
    if (!ok && errors++ < 5)
        printf("rank %d, round %d: %s is wrong\n", rank, round, what);
}

/* Not commutative: the last of the two wins unless it is zero. */
static void last(void *in, void *inout, int *len, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *len; i++)
        if (((int *)inout)[i] == 0)
            ((int *)inout)[i] = ((int *)in)[i];
}

int main(int argc, char **argv) {
    static int in[MOST * 16], out[MOST * 16], want[MOST * 16];
    MPI_Op ops[4] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_BXOR}, latest;
    MPI_Datatype pair, gappy;
    MPI_Init(&argc, &argv);
    int world_rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    /* An int every three. */
    MPI_Type_create_resized(MPI_INT, 0, 3 * sizeof(int), &gappy);
    MPI_Type_commit(&gappy);
    MPI_Op_create(last, 0, &latest);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Comm comm;
        MPI_Request request = MPI_REQUEST_NULL;
        state = round * 977 + 1;
        int parts = 1 + next_random(2), what = next_random(11), count = next_random(MOST / 4), op = next_random(4),
            place = next_random(2), form = next_random(2), kind = next_random(3), pick = next_random(1000);
        MPI_Comm_split(MPI_COMM_WORLD, world_rank % parts, (world_rank * 7 + round) % 4, &comm);
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        int root = pick % size, step = kind == 2 ? 3 : 1, per = kind == 1 ? 2 : 1;
        MPI_Datatype type = kind == 0 ? MPI_INT : kind == 1 ? pair : gappy;
        if (what >= 5 && what <= 9) /* reductions of basic elements */
            type = MPI_INT, step = per = 1;
        int len = count * per; /* ints of data per rank */
        memset(out, 0x55, sizeof out);
        memset(want, 0x55, sizeof want);
        for (int i = 0; i < len; i++)
            in[i * step] = value(round, rank, i);
        switch (what) {
        case 0: /* bcast */
            for (int i = 0; i < len; i++)
                want[i * step] = value(round, root, i);
            if (rank == root)
                memcpy(out, want, sizeof out);
            if (form)
                MPI_Ibcast(out, count, type, root, comm, &request);
            else
                MPI_Bcast(out, count, type, root, comm);
            break;
        case 1: /* gather */
            if (rank == root)
                for (int r = 0; r < size; r++)
                    for (int i = 0; i < len; i++)
                        want[(r * len + i) * step] = value(round, r, i);
            if (place && rank == root)
                for (int i = 0; i < len; i++)
                    out[(rank * len + i) * step] = in[i * step];
            if (form)
                MPI_Igather(place && rank == root ? MPI_IN_PLACE : in, count, type, out, count, type, root, comm, &request);
            else
                MPI_Gather(place && rank == root ? MPI_IN_PLACE : in, count, type, out, count, type, root, comm);
            break;
        case 2: /* scatter */
            if (rank == root)
                for (int r = 0; r < size; r++)
                    for (int i = 0; i < len; i++)
                        in[(r * len + i) * step] = value(round, r, i + 3);
            for (int i = 0; i < len; i++)
                want[i * step] = value(round, rank, i + 3);
            if (form)
                MPI_Iscatter(in, count, type, out, count, type, root, comm, &request);
            else
                MPI_Scatter(in, count, type, out, count, type, root, comm);
            break;
        case 3: /* allgather with other counts for each */
        {
            int counts[4], displs[4], at = 0;
            for (int r = size - 1; r >= 0; r--) {
                counts[r] = (count + r) % (MOST / 4);
                displs[r] = at;
                at += counts[r];
            }
            for (int i = 0; i < counts[rank] * per; i++)
                in[i * step] = value(round, rank, i);
            for (int r = 0; r < size; r++)
                for (int i = 0; i < counts[r] * per; i++)
                    want[(displs[r] * per + i) * step] = value(round, r, i);
            if (place)
                for (int i = 0; i < counts[rank] * per; i++)
                    out[(displs[rank] * per + i) * step] = in[i * step];
            if (form)
                MPI_Iallgatherv(place ? MPI_IN_PLACE : in, counts[rank], type, out, counts, displs, type, comm, &request);
            else
                MPI_Allgatherv(place ? MPI_IN_PLACE : in, counts[rank], type, out, counts, displs, type, comm);
            break;
        }
        case 4: /* alltoall */
            for (int r = 0; r < size; r++)
                for (int i = 0; i < len; i++) {
                    (place ? out : in)[(r * len + i) * step] = value(round, rank, r * 100 + i);
                    want[(r * len + i) * step] = value(round, r, rank * 100 + i);
                }
            if (form)
                MPI_Ialltoall(place ? MPI_IN_PLACE : in, count, type, out, count, type, comm, &request);
            else
                MPI_Alltoall(place ? MPI_IN_PLACE : in, count, type, out, count, type, comm);
            break;
        case 5: /* reduce */
        case 6: /* allreduce */
            if (what == 6 || rank == root)
                for (int i = 0; i < len; i++) {
                    want[i] = value(round, 0, i);
                    for (int r = 1; r < size; r++)
                        want[i] = combine(op, want[i], value(round, r, i));
                }
            if (place && (what == 6 || rank == root))
                memcpy(out, in, len * sizeof(int));
            if (what == 6 && form)
                MPI_Iallreduce(place ? MPI_IN_PLACE : in, out, count, type, ops[op], comm, &request);
            else if (what == 6)
                MPI_Allreduce(place ? MPI_IN_PLACE : in, out, count, type, ops[op], comm);
            else if (form)
                MPI_Ireduce(place && rank == root ? MPI_IN_PLACE : in, out, count, type, ops[op], root, comm, &request);
            else
                MPI_Reduce(place && rank == root ? MPI_IN_PLACE : in, out, count, type, ops[op], root, comm);
            break;
        case 7: /* reduce_scatter */
        {
            int counts[4], before = 0, total = 0;
            for (int r = 0; r < size; r++) {
                counts[r] = (count + 2 * r) % (MOST / 4);
                before += r < rank ? counts[r] : 0;
                total += counts[r];
            }
            for (int i = 0; i < total; i++)
                in[i] = value(round, rank, i);
            for (int i = 0; i < counts[rank]; i++) {
                want[i] = value(round, 0, before + i);
                for (int r = 1; r < size; r++)
                    want[i] = combine(op, want[i], value(round, r, before + i));
            }
            if (form)
                MPI_Ireduce_scatter(in, out, counts, type, ops[op], comm, &request);
            else
                MPI_Reduce_scatter(in, out, counts, type, ops[op], comm);
            break;
        }
        case 8: /* scan */
        case 9: /* exscan */
            for (int i = 0; i < len; i++)
                for (int r = 0; r < (what == 8 ? rank + 1 : rank); r++)
                    want[i] = r == 0 ? value(round, 0, i) : combine(op, want[i], value(round, r, i));
            if (what == 8 && form)
                MPI_Iscan(in, out, count, type, ops[op], comm, &request);
            else if (what == 8)
                MPI_Scan(in, out, count, type, ops[op], comm);
            else if (form)
                MPI_Iexscan(in, out, count, type, ops[op], comm, &request);
            else
                MPI_Exscan(in, out, count, type, ops[op], comm);
            break;
        case 10: /* in the order of the ranks */
            for (int i = 0; i < len; i++)
                in[i * step] = (rank + i) % 3 == 0 ? 0 : value(round, rank, i) | 1;
            for (int i = 0; i < len; i++) {
                want[i] = 0;
                for (int r = 0; r < size; r++) {
                    int theirs = (r + i) % 3 == 0 ? 0 : value(round, r, i) | 1;
                    want[i] = theirs != 0 ? theirs : want[i];
                }
            }
            if (kind == 2) /* `last` knows ints in a row only */
                for (int i = 0; i < len; i++)
                    in[i] = (rank + i) % 3 == 0 ? 0 : value(round, rank, i) | 1;
            MPI_Allreduce(in, out, len, MPI_INT, latest, comm);
            break;
        }
        if (request != MPI_REQUEST_NULL)
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        static const char *names[] = {"bcast", "gather", "scatter", "allgatherv", "alltoall", "reduce",
                                      "allreduce", "reduce_scatter", "scan", "exscan", "an ordered reduction"};
        expect(memcmp(out, want, sizeof out) == 0, names[what], round);
        MPI_Comm_free(&comm);
    }
    MPI_Op_free(&latest);
    MPI_Type_free(&pair);
    MPI_Type_free(&gappy);
    int all;
    MPI_Reduce(&errors, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (world_rank == 0)
        printf("%d rounds, %d errors\n", ROUNDS, all);
    MPI_Finalize();
    return 0;
}
