/* np: 1 2 3 4, peers-np: 4 */
/* Put and get with derived datatypes at both sides, of the same elements in other places: every pair of five layouts, short
 * and long, to the next rank. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 6000 /* elements of an access */
#define ROOM (4 * MOST + 64)
static int rank, size;
static const char *names[] = {"row", "vector", "indexed, backwards", "struct with a gap", "resized"};

/* A type of `n` ints, and where each of them lies, in ints. n is a multiple of 4. */
static MPI_Datatype make(int layout, int n, int *place) {
    MPI_Datatype type, part;
    int lengths[2] = {n / 2, n / 2}, *blocks, *at;
    MPI_Aint where[2] = {(n + 8) * sizeof(int), 0};
    MPI_Datatype parts[2] = {MPI_INT, MPI_INT};
    switch (layout) {
    case 0:
        MPI_Type_contiguous(n, MPI_INT, &type);
        for (int i = 0; i < n; i++)
            place[i] = i;
        break;
    case 1: /* two of three */
        MPI_Type_vector(n / 2, 2, 3, MPI_INT, &type);
        for (int i = 0; i < n; i++)
            place[i] = i / 2 * 3 + i % 2;
        break;
    case 2: /* blocks of 1 and 3, the last first */
        blocks = malloc(n / 2 * sizeof(int)), at = malloc(n / 2 * sizeof(int));
        for (int i = 0, k = 0; i < n / 2; i++) {
            blocks[i] = i % 2 ? 3 : 1;
            at[i] = (n / 2 - i) * 4;
            for (int j = 0; j < blocks[i]; j++)
                place[k++] = at[i] + j;
        }
        MPI_Type_indexed(n / 2, blocks, at, MPI_INT, &type);
        free(blocks), free(at);
        break;
    case 3: /* the second half first */
        MPI_Type_create_struct(2, lengths, where, parts, &type);
        for (int i = 0; i < n; i++)
            place[i] = i < n / 2 ? n + 8 + i : i - n / 2;
        break;
    default: /* every fourth */
        MPI_Type_create_resized(MPI_INT, 0, 4 * sizeof(int), &part);
        MPI_Type_contiguous(n, part, &type);
        MPI_Type_free(&part);
        for (int i = 0; i < n; i++)
            place[i] = 4 * i;
    }
    MPI_Type_commit(&type);
    return type;
}

static int *memory, mine[ROOM], here[MOST], there[MOST], expected[ROOM];

static int value(int who, int i) { return who * 100000 + i; }

/* Whether `found` has the bytes of `want` everywhere. */
static int same(const int *found, const int *want) { return !memcmp(found, want, ROOM * sizeof(int)); }

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int form = 0; form < 2; form++) { /* memory of the library, and of the program */
        MPI_Win win;
        if (form == 0) {
            MPI_Win_allocate(ROOM * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
        } else {
            memory = malloc(ROOM * sizeof(int));
            MPI_Win_create(memory, ROOM * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        }
        for (int a = 0; a < 5; a++)
            for (int b = 0; b < 5; b++) {
                int ok = 1, all, lengths[] = {4, 64, 1600, MOST};
                for (int l = 0; l < 4; l++) {
                    int n = lengths[l], twice = n == 64;
                    /* Once as one element of a type, once as two of half of it. */
                    MPI_Datatype origin = make(a, n, here), target = make(b, n, there), half;
                    MPI_Aint low, extent;
                    for (int i = 0; i < ROOM; i++) {
                        mine[i] = value(rank, i);
                        memory[i] = expected[i] = -1 - i;
                    }
                    MPI_Win_fence(0, win);
                    MPI_Put(mine, 1, origin, next, 5, 1, target, win);
                    MPI_Win_fence(0, win);
                    for (int i = 0; i < n; i++)
                        expected[5 + there[i]] = value(before, here[i]);
                    ok &= same(memory, expected);
                    /* And back, as the previous rank has sent it: into other memory. */
                    for (int i = 0; i < ROOM; i++)
                        mine[i] = expected[i] = -7;
                    MPI_Win_fence(0, win);
                    MPI_Get(mine, 1, origin, next, 5, 1, target, win);
                    MPI_Win_fence(0, win);
                    for (int i = 0; i < n; i++)
                        expected[here[i]] = value(rank, here[i]);
                    ok &= same(mine, expected);
                    if (twice) {
                        half = make(b, n / 2, there);
                        MPI_Type_get_extent(half, &low, &extent);
                        for (int i = 0; i < ROOM; i++) {
                            mine[i] = value(rank, i);
                            memory[i] = expected[i] = -1 - i;
                        }
                        MPI_Win_fence(0, win);
                        MPI_Put(mine, 1, origin, next, 3, 2, half, win);
                        MPI_Win_fence(0, win);
                        for (int i = 0; i < n; i++)
                            expected[3 + there[i % (n / 2)] + i / (n / 2) * (int)(extent / sizeof(int))] = value(before, here[i]);
                        ok &= same(memory, expected);
                        MPI_Type_free(&half);
                    }
                    MPI_Type_free(&origin);
                    MPI_Type_free(&target);
                }
                MPI_Allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
                if (rank == 0)
                    printf("%s to %s: %s\n", names[a], names[b], all ? "right" : "WRONG");
            }
        MPI_Win_free(&win);
        if (form == 1)
            free(memory);
    }
    MPI_Finalize();
    return 0;
}
