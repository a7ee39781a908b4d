/* np: 1 2 3 4, peers-np: 4 */
/* Put, get and accumulations under every kind of synchronisation, in windows of every kind. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define N 1000
static int rank, size;

static void check(int ok, const char *what) {
    int all;
    MPI_Allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: %s\n", what, all ? "right" : "WRONG");
}

enum kind { CREATE, ALLOCATE, SHARED, DYNAMIC };
static const char *names[] = {"create", "allocate", "allocate_shared", "create_dynamic"};
static MPI_Aint there[16];

/* A window of 2 N ints, and the displacement of the first of them at each rank, in ints or bytes. */
static MPI_Win make(enum kind kind, int **memory, int *unit) {
    MPI_Win win;
    int *flavor, flag, flavors[] = {MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_ALLOCATE, MPI_WIN_FLAVOR_SHARED, MPI_WIN_FLAVOR_DYNAMIC};
    MPI_Aint bytes = 2 * N * sizeof(int), own = 0;
    *unit = 1;
    if (kind == CREATE) {
        *memory = malloc(bytes);
        MPI_Win_create(*memory, bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    } else if (kind == ALLOCATE) {
        MPI_Win_allocate(bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, memory, &win);
    } else if (kind == SHARED) {
        MPI_Win_allocate_shared(bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, memory, &win);
    } else {
        *memory = malloc(bytes);
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        MPI_Win_attach(win, *memory, bytes);
        MPI_Get_address(*memory, &own);
        *unit = sizeof(int);
    }
    MPI_Allgather(&own, 1, MPI_AINT, there, 1, MPI_AINT, MPI_COMM_WORLD);
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag);
    check(flag && *flavor == flavors[kind], names[kind]);
    return win;
}

static void fill(int *memory, MPI_Win win) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    for (int i = 0; i < 2 * N; i++)
        memory[i] = rank * 10000 + i;
    MPI_Win_unlock(rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Group world, to, from;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &next, &to);
    MPI_Group_incl(world, 1, &before, &from);
    for (enum kind kind = CREATE; kind <= DYNAMIC; kind++) {
        int *memory, unit, ok, mine[N], got[N], one = 1, old, flag;
        MPI_Request request[2];
        MPI_Win win = make(kind, &memory, &unit);
#define AT(rank, i) (there[rank] + (MPI_Aint)(i) * unit)
        for (int i = 0; i < N; i++)
            mine[i] = -rank * 1000000 - i;

        fill(memory, win);
        MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
        MPI_Put(mine, N, MPI_INT, next, AT(next, 0), N, MPI_INT, win);
        MPI_Get(got, N, MPI_INT, before, AT(before, N), N, MPI_INT, win);
        MPI_Win_fence(MPI_MODE_NOSTORE, win);
        MPI_Accumulate(mine, 10, MPI_INT, 0, AT(0, N), 10, MPI_INT, MPI_SUM, win);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        ok = 1;
        for (int i = 0; i < N; i++)
            ok &= memory[i] == -before * 1000000 - i && got[i] == before * 10000 + N + i;
        for (int i = 0; i < 10 && rank == 0; i++)
            ok &= memory[N + i] == N + i - size * (size - 1) / 2 * 1000000 - size * i;
        check(ok, "  fence");

        fill(memory, win);
        MPI_Win_post(from, 0, win);
        MPI_Win_start(to, 0, win);
        MPI_Put(mine, 5, MPI_INT, next, AT(next, 7), 5, MPI_INT, win);
        MPI_Accumulate(mine, 5, MPI_INT, next, AT(next, 20), 5, MPI_INT, MPI_REPLACE, win);
        MPI_Get(got, 5, MPI_INT, next, AT(next, 100), 5, MPI_INT, win);
        MPI_Win_complete(win);
        if (rank % 2)
            MPI_Win_wait(win);
        else
            do
                MPI_Win_test(win, &flag);
            while (!flag);
        ok = 1;
        for (int i = 0; i < 5; i++)
            ok &= memory[7 + i] == -before * 1000000 - i && memory[20 + i] == memory[7 + i] && got[i] == next * 10000 + 100 + i;
        check(ok && memory[6] == rank * 10000 + 6 && memory[12] == rank * 10000 + 12, "  post, start, complete, wait");

        fill(memory, win);
        for (int i = 0; i < 100; i++) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
            MPI_Get(&old, 1, MPI_INT, 0, AT(0, 3), 1, MPI_INT, win);
            MPI_Win_flush(0, win);
            old++;
            MPI_Put(&old, 1, MPI_INT, 0, AT(0, 3), 1, MPI_INT, win);
            MPI_Win_unlock(0, win);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        MPI_Get(&old, 1, MPI_INT, 0, AT(0, 3), 1, MPI_INT, win);
        MPI_Win_unlock(0, win);
        check(old == 3 + 100 * size, "  lock, flush, unlock");

        fill(memory, win);
        MPI_Win_lock_all(0, win);
        ok = 1;
        for (int i = 0; i < 100 * size; i++) {
            MPI_Fetch_and_op(&one, &old, MPI_INT, i % size, AT(i % size, 9), MPI_SUM, win);
            MPI_Win_flush_local(i % size, win);
            ok &= old >= i % size * 10000 + 9 && old < i % size * 10000 + 9 + 100 * size;
        }
        for (int turn = 0; turn < 50;) { /* an increment by comparing and swapping */
            int now, swap, found;
            MPI_Fetch_and_op(NULL, &now, MPI_INT, 0, AT(0, 11), MPI_NO_OP, win);
            MPI_Win_flush(0, win);
            swap = now + 1;
            MPI_Compare_and_swap(&swap, &now, &found, MPI_INT, 0, AT(0, 11), win);
            MPI_Win_flush(0, win);
            turn += found == now;
        }
        MPI_Win_flush_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Get_accumulate(NULL, 0, MPI_INT, got, 3, MPI_INT, next, AT(next, 9), 3, MPI_INT, MPI_NO_OP, win);
        MPI_Win_flush_local_all(win);
        MPI_Win_unlock_all(win);
        ok &= got[0] == next * 10000 + 9 + 100 * size && got[1] == next * 10000 + 10;
        check(ok && (next != 0 || got[2] == 11 + 50 * size), "  lock_all, fetch and op, compare and swap");

        fill(memory, win);
        MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
        MPI_Rput(mine, N, MPI_INT, next, AT(next, 0), N, MPI_INT, win, &request[0]);
        MPI_Rget(got, N, MPI_INT, next, AT(next, N), N, MPI_INT, win, &request[1]);
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
        ok = got[0] == next * 10000 + N && got[N - 1] == next * 10000 + 2 * N - 1;
        MPI_Win_flush(next, win);
        MPI_Raccumulate(mine, N, MPI_INT, next, AT(next, 0), N, MPI_INT, MPI_SUM, win, &request[0]);
        MPI_Wait(&request[0], MPI_STATUS_IGNORE);
        MPI_Rget_accumulate(mine, N, MPI_INT, got, N, MPI_INT, next, AT(next, 0), N, MPI_INT, MPI_SUM, win, &request[1]);
        MPI_Wait(&request[1], MPI_STATUS_IGNORE);
        for (int i = 0; i < N; i++)
            ok &= got[i] == 2 * mine[i];
        MPI_Win_unlock_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
        for (int i = 0; i < N; i++)
            ok &= memory[i] == 3 * (-before * 1000000 - i);
        MPI_Win_unlock(rank, win);
        check(ok, "  requests");

        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_fence(0, win);
        MPI_Put(mine, N, MPI_INT, MPI_PROC_NULL, 0, N, MPI_INT, win);
        MPI_Win_fence(0, win);
        if (kind == DYNAMIC)
            MPI_Win_detach(win, memory);
        MPI_Win_free(&win);
        if (kind == CREATE || kind == DYNAMIC)
            free(memory);
        check(win == MPI_WIN_NULL, "  free");
    }
    MPI_Group_free(&world);
    MPI_Group_free(&to);
    MPI_Group_free(&from);
    MPI_Finalize();
    return 0;
}
