/* np: 1 2 3 4, peers: no */
/* Random epochs of accesses, in windows of every kind and with every synchronisation, against a model of all memory that each
 * process works out alone from the same random numbers.
 *
 * Arguments: a seed, the number of epochs, and `rows` for data in rows only. With rows MPICH 4.0.2 prints the same; with
 * derived datatypes its MPI_Rget, and with either Open MPI 4.1.4's MPI_Get_accumulate, give wrong data or fail.
 *
 * In an epoch each target's memory has three kinds of parts: one of each origin, with puts, or with accumulations of any
 * operator, whose order the standard keeps; one in which all origins add; one that all origins read. So the result does not
 * depend on how processes take turns. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EPOCHS 120
#define CELLS 24000 /* ints of each rank's memory */
#define OPS 10      /* accesses of a rank in an epoch, at most */
#define MOST 4000   /* elements of an access, at most */
#define RANKS 8

static unsigned long long state;
static int rank, size, errors;
static int model[RANKS][CELLS];

static unsigned next_random(unsigned below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(state >> 33) % below;
}

static void expect(int ok, const char *what, int epoch) {
    if (!ok && errors++ < 5)
        fprintf(stderr, "rank %d of %d, epoch %d: %s is wrong\n", rank, size, epoch, what);
}

/* Layouts: where element `i` of `n` lies. */
static int place(int layout, int n, int i) { return layout == 0 ? i : layout == 1 ? 2 * i : layout == 2 ? n - 1 - i : i / 3 * 5 + i % 3; }

static int span(int layout, int n) { return layout == 1 || layout == 3 ? 2 * n : n; }

static MPI_Datatype type_of(int layout, int n) {
    MPI_Datatype type;
    if (layout == 0) {
        MPI_Type_contiguous(n, MPI_INT, &type);
    } else if (layout == 1) {
        MPI_Type_vector(n, 1, 2, MPI_INT, &type);
    } else if (layout == 2) {
        int *at = malloc(n * sizeof(int));
        for (int i = 0; i < n; i++)
            at[i] = n - 1 - i;
        MPI_Type_create_indexed_block(n, 1, at, MPI_INT, &type);
        free(at);
    } else { /* threes, and what is left over */
        int lengths[2] = {1, n % 3};
        MPI_Aint at[2] = {0, n / 3 * 5 * sizeof(int)};
        MPI_Datatype parts[2] = {MPI_INT, MPI_INT};
        MPI_Type_vector(n / 3, 3, 5, MPI_INT, &parts[0]);
        MPI_Type_create_struct(2, lengths, at, parts, &type);
        MPI_Type_free(&parts[0]);
    }
    MPI_Type_commit(&type);
    return type;
}

static int combine(MPI_Op op, int old, int with) {
    return op == MPI_SUM    ? (int)((unsigned)old + (unsigned)with)
           : op == MPI_REPLACE ? with
           : op == MPI_MAX  ? (old > with ? old : with)
           : op == MPI_BXOR ? old ^ with
                            : old;
}

/* What this process has under way: buffers, and what is to be in them. */
static int arena[OPS][2][2 * MOST + 8], wanted[OPS][2 * MOST + 8], checked[OPS];
static int compared[OPS];

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int seed = argc > 1 ? atoi(argv[1]) : 1, epochs = argc > 2 ? atoi(argv[2]) : EPOCHS, rows = argc > 3, all;
    MPI_Win wins[4];
    int *memories[4];
    MPI_Aint bytes = CELLS * sizeof(int), there[RANKS] = {0}, own;
    memories[0] = malloc(bytes), memories[3] = malloc(bytes);
    MPI_Win_create(memories[0], bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &wins[0]);
    MPI_Win_allocate(bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memories[1], &wins[1]);
    MPI_Win_allocate_shared(bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memories[2], &wins[2]);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &wins[3]);
    MPI_Win_attach(wins[3], memories[3], bytes);
    MPI_Get_address(memories[3], &own);
    MPI_Allgather(&own, 1, MPI_AINT, there, 1, MPI_AINT, MPI_COMM_WORLD);
    MPI_Group world;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Op ops[] = {MPI_SUM, MPI_REPLACE, MPI_MAX, MPI_BXOR};
    for (int epoch = 0; epoch < epochs; epoch++) {
        state = (unsigned long long)seed * 1000003 + epoch;
        for (int i = 0; i < 5; i++)
            next_random(2);
        int kind = next_random(4), sync = next_random(5);
        MPI_Win win = wins[kind];
        int *memory = memories[kind], parts[RANKS + 3], mode[RANKS];
        for (int who = 0; who < size; who++)
            for (int i = 0; i < CELLS; i++)
                model[who][i] = who * 1000003 + epoch * 7919 + i * 31;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
        memcpy(memory, model[rank], bytes);
        MPI_Win_unlock(rank, win);
        MPI_Barrier(MPI_COMM_WORLD);
        /* Borders of the parts, the same at all targets; what each origin does in its own. */
        parts[0] = 0, parts[size + 2] = CELLS;
        for (int i = 1; i <= size + 1; i++)
            parts[i] = CELLS / (size + 2) * i + (int)next_random(200) - 100;
        for (int i = 0; i < size; i++)
            mode[i] = next_random(2);
        if (sync == 0) {
            MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
        } else if (sync == 1) {
            MPI_Win_post(world, 0, win);
            MPI_Win_start(world, 0, win);
        } else if (sync == 2) {
            MPI_Win_lock_all(0, win);
        }
        for (int who = 0; who < size; who++) {
            int puts_end[RANKS], count = next_random(OPS + 1);
            for (int i = 0; i < RANKS; i++)
                puts_end[i] = parts[who];
            for (int o = 0; o < count; o++) {
                int target = next_random(size), part = next_random(3), a = next_random(4), b = next_random(4);
                if (rows)
                    a = b = 0;
                int n = 3 + next_random(next_random(3) ? 40 : MOST - 3), form = next_random(3), op = next_random(4), request = next_random(2);
                int first = part == 0 ? parts[who] : parts[size + part - 1], end = part == 0 ? parts[who + 1] : parts[size + part];
                if (part == 0 && mode[who] == 0)
                    first = puts_end[target]; /* puts of an epoch do not overlap */
                if (form == 2 && part == 0 && mode[who] == 1)
                    n = 1, a = b = 0; /* one element */
                while (span(b, n) > end - first && n > 3)
                    n = n / 2 > 3 ? n / 2 : 3;
                int shift = next_random(1000);
                if (span(b, n) > end - first)
                    continue;
                int at = first + shift % (end - first - span(b, n) + 1), me = who == rank;
                if (part == 0 && mode[who] == 0)
                    puts_end[target] = at + span(b, n);
                int *mine = arena[o][0], *back = arena[o][1], *cells = &model[target][at];
                if (me) {
                    checked[o] = 0;
                    for (int i = 0; i < 2 * MOST + 8; i++)
                        back[i] = wanted[o][i] = -5;
                }
                /* The model, and the buffers if the access is this rank's. */
                int fetches = part == 2 || (part == 0 && mode[who] == 1 && form > 0) || (part == 1 && form == 2 && size == 1);
                int swap = part == 0 && mode[who] == 1 && form == 2 && op == 1, compare = 0;
                if (swap) {
                    compare = next_random(2) ? cells[0] : cells[0] + 1;
                    if (me)
                        compared[o] = compare;
                }
                for (int i = 0; i < n; i++) {
                    int *cell = &cells[place(b, n, i)], value = who * 77 + o * 13 + i;
                    if (me) {
                        mine[place(a, n, i)] = value;
                        if (fetches)
                            wanted[o][place(a, n, i)] = *cell;
                    }
                    if (part == 0 && mode[who] == 0)
                        *cell = value;
                    else if (part == 0)
                        *cell = swap ? (*cell == compare ? value : *cell) : combine(ops[op], *cell, value);
                    else if (part == 1)
                        *cell = combine(MPI_SUM, *cell, value);
                }
                if (!me)
                    continue;
                checked[o] = fetches;
                MPI_Request pending = MPI_REQUEST_NULL;
                MPI_Datatype here = type_of(a, n), far = type_of(b, n);
                MPI_Aint disp = kind == 3 ? there[target] + at * (MPI_Aint)sizeof(int) : at;
                request &= sync >= 2;
                if (sync > 2)
                    MPI_Win_lock(sync == 3 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0, win);
                if (part == 2) {
                    if (request)
                        MPI_Rget(back, 1, here, target, disp, 1, far, win, &pending);
                    else
                        MPI_Get(back, 1, here, target, disp, 1, far, win);
                } else if (part == 0 && mode[who] == 0) {
                    if (request)
                        MPI_Rput(mine, 1, here, target, disp, 1, far, win, &pending);
                    else
                        MPI_Put(mine, 1, here, target, disp, 1, far, win);
                } else if (swap) {
                    MPI_Compare_and_swap(mine, &compared[o], back, MPI_INT, target, disp, win);
                } else if (part == 0 && form == 2) {
                    MPI_Fetch_and_op(mine, back, MPI_INT, target, disp, ops[op], win);
                } else if (fetches) {
                    if (request)
                        MPI_Rget_accumulate(mine, 1, here, back, 1, here, target, disp, 1, far, part ? MPI_SUM : ops[op], win, &pending);
                    else
                        MPI_Get_accumulate(mine, 1, here, back, 1, here, target, disp, 1, far, part ? MPI_SUM : ops[op], win);
                } else {
                    if (request)
                        MPI_Raccumulate(mine, 1, here, target, disp, 1, far, part ? MPI_SUM : ops[op], win, &pending);
                    else
                        MPI_Accumulate(mine, 1, here, target, disp, 1, far, part ? MPI_SUM : ops[op], win);
                }
                MPI_Type_free(&here);
                MPI_Type_free(&far);
                if (request) {
                    MPI_Wait(&pending, MPI_STATUS_IGNORE);
                    expect(!fetches || part != 2 || !memcmp(back, wanted[o], sizeof back[0] * (2 * MOST + 8)), "what a request has read", epoch);
                }
                if (sync == 2 && shift % 3 == 0)
                    MPI_Win_flush(target, win);
                if (sync > 2)
                    MPI_Win_unlock(target, win);
            }
            if (who == rank)
                for (int o = count; o < OPS; o++)
                    checked[o] = 0;
        }
        if (sync == 0) {
            MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        } else if (sync == 1) {
            MPI_Win_complete(win);
            MPI_Win_wait(win);
        } else if (sync == 2) {
            MPI_Win_unlock_all(win);
        }
        for (int o = 0; o < OPS; o++)
            expect(!checked[o] || !memcmp(arena[o][1], wanted[o], sizeof wanted[o]), "what was read", epoch);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
        expect(!memcmp(memory, model[rank], bytes), "the memory", epoch);
        MPI_Win_unlock(rank, win);
        MPI_Barrier(MPI_COMM_WORLD);
        memset(checked, 0, sizeof checked);
    }
    MPI_Allreduce(&errors, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("random epochs: %s\n", all ? "WRONG" : "right");
    MPI_Win_detach(wins[3], memories[3]);
    for (int i = 0; i < 4; i++)
        MPI_Win_free(&wins[i]);
    free(memories[0]), free(memories[3]);
    MPI_Group_free(&world);
    MPI_Finalize();
    return 0;
}
