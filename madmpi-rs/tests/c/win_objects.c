/* np: 1 2 3 4, peers: openmpi, peers-np: 4 */
/* Windows as objects: attributes, names, groups, hints, error handlers, keys of the program; memory that is shared, attached
 * and detached. MPICH 4.0.2 is left out: where a length is no multiple of 16, its MPI_WIN_BASE is not the address that
 * MPI_Win_allocate has returned, and puts go to the former. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

static int calls, copied, deleted;

static void handler(MPI_Win *win, int *code, ...) {
    int class;
    MPI_Error_class(*code, &class);
    calls += *win != MPI_WIN_NULL && class == MPI_ERR_RANK;
}

static int copy(MPI_Win win, int key, void *extra, void *in, void *out, int *flag) {
    copied++;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete(MPI_Win win, int key, void *value, void *extra) {
    deleted += value == (void *)&rank && extra == (void *)&size;
    return MPI_SUCCESS;
}

static void *attribute(MPI_Win win, int key) {
    void *value = NULL;
    int flag = 0;
    MPI_Win_get_attr(win, key, &value, &flag);
    expect(flag, "an attribute is there");
    return flag ? value : NULL;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, before = (rank + size - 1) % size, flag, len;
    MPI_Win win;
    char *memory, name[MPI_MAX_OBJECT_NAME], value[100];
    MPI_Group world, group;
    MPI_Comm_group(MPI_COMM_WORLD, &world);

    /* Each rank has another length and another unit. */
    MPI_Aint own = 1000 + 8 * rank;
    int unit = rank % 2 ? 8 : 2;
    MPI_Win_allocate(own, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    expect(attribute(win, MPI_WIN_BASE) == memory, "the base");
    expect(*(MPI_Aint *)attribute(win, MPI_WIN_SIZE) == own, "the size");
    expect(*(int *)attribute(win, MPI_WIN_DISP_UNIT) == unit, "the unit");
    expect(*(int *)attribute(win, MPI_WIN_CREATE_FLAVOR) == MPI_WIN_FLAVOR_ALLOCATE, "the flavor");
    expect(*(int *)attribute(win, MPI_WIN_MODEL) == MPI_WIN_UNIFIED, "the model");
    MPI_Win_fence(0, win);
    long number = 77 + rank, there = 0;
    MPI_Put(&number, 1, MPI_LONG, next, 16 / (next % 2 ? 8 : 2), 1, MPI_LONG, win);
    MPI_Win_fence(0, win);
    expect(((long *)memory)[2] == 77 + before, "the target's unit counts");
    report("attributes");

    MPI_Win_get_name(win, name, &len);
    MPI_Win_set_name(win, "a window");
    MPI_Win_get_name(win, name, &len);
    expect(len == 8 && !strcmp(name, "a window"), "the name");
    MPI_Win_get_group(win, &group);
    MPI_Group_compare(world, group, &flag);
    expect(flag == MPI_IDENT, "the group");
    MPI_Group_free(&group);
    report("name and group");

    int key;
    MPI_Win_create_keyval(copy, delete, &key, &size);
    MPI_Win_get_attr(win, key, &(void *){NULL}, &flag);
    expect(!flag, "no value yet");
    MPI_Win_set_attr(win, key, &rank);
    expect(attribute(win, key) == &rank, "the value");
    MPI_Win_set_attr(win, key, &rank);
    expect(deleted == 1, "the old value is deleted");
    MPI_Win_delete_attr(win, key);
    expect(deleted == 2, "the value is deleted");
    MPI_Win_set_attr(win, key, &rank);
    MPI_Win_free_keyval(&key);
    expect(key == MPI_KEYVAL_INVALID, "the key is gone");
    report("keys of the program");

    MPI_Errhandler mine, found;
    MPI_Win_get_errhandler(win, &found);
    expect(found == MPI_ERRORS_ARE_FATAL, "errors end the program unless it says otherwise");
    MPI_Win_create_errhandler(handler, &mine);
    MPI_Win_set_errhandler(win, mine);
    MPI_Win_get_errhandler(win, &found);
    expect(found == mine, "the handler");
    MPI_Win_fence(0, win);
    expect(MPI_Put(&number, 1, MPI_LONG, size + 3, 0, 1, MPI_LONG, win) != MPI_SUCCESS && calls == 1, "it is called");
    MPI_Win_call_errhandler(win, MPI_ERR_RANK);
    expect(calls == 2, "the program calls it");
    MPI_Errhandler_free(&mine);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    int class;
    MPI_Error_class(MPI_Put(&number, 1, MPI_LONG, -5, 0, 1, MPI_LONG, win), &class);
    expect(class == MPI_ERR_RANK && calls == 2, "it is returned");
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    report("error handlers");
    MPI_Win_free(&win);
    expect(win == MPI_WIN_NULL && deleted == 3 && copied == 0, "freeing deletes attributes");
    report("freed");

    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "no_locks", "false");
    MPI_Info_set(info, "a_key_of_ours", "x");
    memory = malloc(64);
    MPI_Win_create(memory, 64, 1, info, MPI_COMM_WORLD, &win);
    MPI_Info_free(&info);
    MPI_Win_get_info(win, &info);
    MPI_Info_get(info, "no_locks", 99, value, &flag);
    expect(!flag || !strcmp(value, "false"), "a hint");
    MPI_Win_set_info(win, info);
    MPI_Info_free(&info);
    expect(*(int *)attribute(win, MPI_WIN_CREATE_FLAVOR) == MPI_WIN_FLAVOR_CREATE, "the flavor");
    MPI_Win_free(&win);
    free(memory);
    report("hints");

    /* Shared memory: parts of several lengths that touch, one of them empty; loads and stores of the others' memory. */
    int *shared, *theirs;
    MPI_Aint bytes, want = (rank == 1 ? 0 : 100 + rank) * sizeof(int);
    MPI_Win_allocate_shared(want, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &shared, &win);
    expect(*(int *)attribute(win, MPI_WIN_CREATE_FLAVOR) == MPI_WIN_FLAVOR_SHARED, "the flavor");
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    for (int i = 0; i < want / (int)sizeof(int); i++)
        shared[i] = rank * 1000 + i;
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    char *end = NULL;
    for (int who = 0; who < size; who++) {
        MPI_Win_shared_query(win, who, &bytes, &unit, &theirs);
        expect(bytes == (who == 1 ? 0 : 100 + who) * (MPI_Aint)sizeof(int) && unit == sizeof(int), "length and unit");
        for (int i = 0; i < bytes / (int)sizeof(int); i++)
            expect(theirs[i] == who * 1000 + i, "what another process has stored");
        expect(!bytes || !end || (char *)theirs == end, "the parts touch");
        if (bytes)
            end = (char *)theirs + bytes;
    }
    MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &theirs);
    expect(bytes == 100 * sizeof(int) && theirs[1] == 1, "the first part that is not empty");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_shared_query(win, next, &bytes, &unit, &theirs);
    if (bytes)
        theirs[5] = -rank;
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    expect(!want || shared[5] == -before, "what another process has stored here");
    int one = 1;
    MPI_Accumulate(&one, 1, MPI_INT, 0, 7, 1, MPI_INT, MPI_SUM, win);
    MPI_Win_flush(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_shared_query(win, 0, &bytes, &unit, &theirs);
    expect(theirs[7] == 7 + size, "accumulations beside loads");
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    report("shared memory");
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", "true");
    MPI_Win_allocate_shared(40, sizeof(int), info, MPI_COMM_WORLD, &shared, &win);
    MPI_Info_free(&info);
    shared[9] = rank;
    MPI_Win_fence(0, win);
    MPI_Win_shared_query(win, next, &bytes, &unit, &theirs);
    expect(bytes >= 40 && theirs[9] == next, "parts that need not touch");
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    report("shared memory that is not in a row");

    /* Memory that is attached late, in several pieces, and detached. */
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    expect(attribute(win, MPI_WIN_BASE) == MPI_BOTTOM && *(MPI_Aint *)attribute(win, MPI_WIN_SIZE) == 0, "no memory of its own");
    for (int turn = 0; turn < 3; turn++) {
        int *pieces[2] = {calloc(1000, sizeof(int)), calloc(5000, sizeof(int))};
        MPI_Aint at[2], *all = malloc(2 * size * sizeof(MPI_Aint));
        MPI_Win_attach(win, pieces[0], 1000 * sizeof(int));
        MPI_Win_attach(win, pieces[1], 5000 * sizeof(int));
        MPI_Get_address(pieces[0], &at[0]);
        MPI_Get_address(pieces[1], &at[1]);
        MPI_Allgather(at, 2, MPI_AINT, all, 2, MPI_AINT, MPI_COMM_WORLD);
        int *mine = malloc(5000 * sizeof(int));
        for (int i = 0; i < 5000; i++)
            mine[i] = rank * 10000 + i + turn;
        MPI_Win_lock_all(0, win);
        MPI_Put(mine, 5000, MPI_INT, next, all[2 * next + 1], 5000, MPI_INT, win);
        MPI_Put(mine, 10, MPI_INT, next, MPI_Aint_add(all[2 * next], 990 * sizeof(int)), 10, MPI_INT, win);
        MPI_Accumulate(&one, 1, MPI_INT, 0, all[0], 1, MPI_INT, MPI_SUM, win);
        MPI_Win_unlock_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
        for (int i = 0; i < 5000; i++)
            expect(pieces[1][i] == before * 10000 + i + turn, "a long put");
        for (int i = 0; i < 10; i++)
            expect(pieces[0][990 + i] == before * 10000 + i + turn, "a short put");
        expect(rank != 0 || pieces[0][0] == size, "an accumulation");
        MPI_Win_unlock(rank, win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_detach(win, pieces[0]);
        MPI_Win_detach(win, pieces[1]);
        free(pieces[0]), free(pieces[1]), free(mine), free(all);
    }
    MPI_Win_free(&win);
    report("dynamic memory");

    /* A window without bytes, one of a part of the processes, and several at once. */
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Win several[5];
    int members, place, *first[5];
    MPI_Comm_rank(half, &place);
    MPI_Comm_size(half, &members);
    for (int turn = 0; turn < 2; turn++) { /* at once Open MPI 4.1.4 takes the same file for both halves */
        for (int i = 0; i < 5 && turn == rank % 2; i++) {
            MPI_Win_allocate(i * sizeof(int), sizeof(int), MPI_INFO_NULL, half, &first[i], &several[i]);
            for (int k = 0; k < i; k++)
                first[i][k] = 0;
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int i = 0; i < 5; i++)
        MPI_Win_fence(0, several[i]);
    for (int i = 1; i < 5; i++)
        MPI_Put(&rank, 1, MPI_INT, (place + 1) % members, i - 1, 1, MPI_INT, several[i]);
    for (int i = 4; i >= 0; i--)
        MPI_Win_fence(0, several[i]);
    MPI_Comm_free(&half); /* windows live on */
    for (int i = 1; i < 5; i++)
        expect(first[i][i - 1] % 2 == rank % 2 && (members == 1) == (first[i][i - 1] == rank), "several windows");
    for (int i = 0; i < 5; i++)
        MPI_Win_free(&several[i]);
    report("windows of a part of the processes");
    (void)there;
    MPI_Group_free(&world);
    MPI_Finalize();
    return 0;
}
