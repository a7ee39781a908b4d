/* A process ends inside an epoch of a window, in a way that the first argument names; each of the others says what it was told. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N 20000

static int is(const char *mode, const char *name) { return !strcmp(mode, name); }

static void leave(const char *how) {
    if (is(how, "killed"))
        raise(SIGKILL);
    _exit(0); /* nothing of the library runs any more */
}

static const char *to_leave_by;

static void alarmed(int signal) {
    (void)signal;
    leave(to_leave_by);
}

int main(int argc, char **argv) {
    const char *mode = argv[1], *how = argv[2];
    int rank, size, code = MPI_SUCCESS, class, *memory, freed;
    static int mine[N];
    MPI_Win win;
    MPI_Request request;
    MPI_Group world, others, target;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, (int[]){1}, &target);
    MPI_Group_excl(world, 1, (int[]){1}, &others);
    if (is(mode, "created")) {
        memory = malloc(N * sizeof(int));
        MPI_Win_create(memory, N * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    } else {
        MPI_Win_allocate(N * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    }
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_fence(0, win);
    MPI_Put(mine, N, MPI_INT, 1, 0, N, MPI_INT, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    double until = MPI_Wtime() + 20;
    if (is(mode, "fence")) {
        MPI_Win_fence(0, win);
        if (rank == 1)
            leave(how);
        while (code == MPI_SUCCESS && MPI_Wtime() < until) {
            code = MPI_Put(mine, N, MPI_INT, 1, 0, N, MPI_INT, win);
            if (code == MPI_SUCCESS)
                code = MPI_Win_fence(0, win);
        }
    } else if (is(mode, "start")) { /* never posted */
        if (rank == 1)
            leave(how);
        code = MPI_Win_start(target, 0, win);
    } else if (is(mode, "complete")) { /* posted, and dead while the others access */
        if (rank == 1) {
            MPI_Win_post(others, 0, win);
            leave(how);
        }
        code = MPI_Win_start(target, 0, win);
        /* Gets from shared memory do not ask whether its owner lives; a receive from it does, and the end of the epoch. */
        MPI_Irecv(mine, 0, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
        int lives = MPI_SUCCESS, over;
        while (code == MPI_SUCCESS && lives == MPI_SUCCESS) {
            code = MPI_Get(mine, N, MPI_INT, 1, 0, N, MPI_INT, win);
            lives = MPI_Test(&request, &over, MPI_STATUS_IGNORE);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (code == MPI_SUCCESS)
            code = MPI_Win_complete(win);
    } else if (is(mode, "post")) { /* for a group with one that is dead already */
        if (rank == 1)
            leave(how);
        MPI_Recv(mine, 0, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        code = MPI_Win_post(target, 0, win);
        if (code == MPI_SUCCESS)
            code = MPI_Win_wait(win);
    } else if (is(mode, "both")) { /* all are shown to all: whoever cannot start has not left the others waiting */
        MPI_Group all_others;
        MPI_Group_excl(world, 1, &rank, &all_others);
        if (rank == 1)
            leave(how);
        MPI_Win_post(all_others, 0, win);
        code = MPI_Win_start(all_others, 0, win);
        if (code == MPI_SUCCESS || MPI_Win_wait(win) == MPI_SUCCESS)
            code = MPI_ERR_OTHER;
    } else if (is(mode, "freed")) { /* a window that is gone at its target answers */
        if (rank == 1)
            leave(how);
        code = MPI_Recv(mine, 0, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 2) {
            MPI_Recv(mine, 0, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
            MPI_Put(mine, N, MPI_INT, 0, 0, N, MPI_INT, win);
            MPI_Win_unlock(0, win);
        }
    } else if (is(mode, "wait")) { /* an origin that does not complete */
        if (rank == 1) {
            MPI_Win_start(others, 0, win);
            leave(how);
        }
        code = MPI_Win_post(target, 0, win);
        if (code == MPI_SUCCESS)
            code = MPI_Win_wait(win);
    } else if (is(mode, "holder")) { /* holds the lock that the others wait for */
        if (rank == 1) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
            MPI_Send(mine, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
            MPI_Send(mine, 1, MPI_INT, 2, 0, MPI_COMM_WORLD);
            usleep(100000);
            leave(how);
        }
        MPI_Recv(mine, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        code = MPI_Win_lock(rank == 0 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, 0, 0, win);
    } else if (is(mode, "half") || is(mode, "queue")) { /* a request that is not all there; one that waits for the lock */
        if (rank == 1 && is(mode, "half")) {
            MPI_Win_lock(MPI_LOCK_SHARED, 0, MPI_MODE_NOCHECK, win);
            for (int i = 0; i < 200; i++)
                MPI_Put(mine, 100, MPI_INT, 0, 0, 100, MPI_INT, win);
            leave(how);
        } else if (rank == 1) {
            MPI_Recv(mine, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            to_leave_by = how;
            signal(SIGALRM, alarmed);
            ualarm(100000, 0);
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        } else if (rank == 0 && is(mode, "queue")) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
            MPI_Send(mine, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
        }
        code = MPI_Recv(mine, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 0 && is(mode, "queue"))
            MPI_Win_unlock(0, win);
        if (rank == 2 && (MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win) || MPI_Win_unlock(0, win)))
            code = MPI_ERR_OTHER;
        MPI_Sendrecv(mine, 1, MPI_INT, 2 - rank, 0, mine, 1, MPI_INT, 2 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (is(mode, "lock_all") || is(mode, "unlock_all")) { /* whoever does not get all locks, or gives them back, holds none */
        if (is(mode, "unlock_all") && rank != 1) {
            MPI_Win_lock_all(0, win);
            MPI_Send(mine, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(mine, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            code = MPI_Win_unlock_all(win);
        } else if (is(mode, "unlock_all")) {
            MPI_Recv(mine, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(mine, 1, MPI_INT, 2, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        if (rank == 1)
            leave(how);
        while (code == MPI_SUCCESS && MPI_Wtime() < until) {
            code = MPI_Win_lock_all(0, win);
            if (code == MPI_SUCCESS)
                code = MPI_Win_unlock_all(win);
        }
        if (MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2 - rank, 0, win) == MPI_SUCCESS)
            MPI_Win_unlock(2 - rank, win);
        else
            code = MPI_ERR_OTHER;
        /* The window stays until both have had each other's lock. */
        MPI_Sendrecv(mine, 1, MPI_INT, 2 - rank, 0, mine, 1, MPI_INT, 2 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else { /* "flush", "again", "created", "request", "accumulate": passive epochs */
        int n = is(mode, "again") ? 1 : N;
        if (rank == 1) {
            MPI_Recv(mine, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(mine, 1, MPI_INT, 2, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            leave(how);
        }
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
        MPI_Send(mine, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
        while (code == MPI_SUCCESS && MPI_Wtime() < until) {
            if (is(mode, "request")) {
                code = MPI_Rget(mine, N, MPI_INT, 1, 0, N, MPI_INT, win, &request);
                if (code == MPI_SUCCESS)
                    code = MPI_Wait(&request, MPI_STATUS_IGNORE);
            } else if (is(mode, "accumulate")) {
                code = MPI_Accumulate(mine, N, MPI_INT, 1, 0, N, MPI_INT, MPI_SUM, win);
            } else {
                code = MPI_Put(mine, n, MPI_INT, 1, 0, n, MPI_INT, win);
            }
            if (code == MPI_SUCCESS)
                code = MPI_Win_flush(1, win);
        }
        /* What was lost stays lost. */
        if (is(mode, "again") && MPI_Win_flush(1, win) != code)
            code = MPI_ERR_OTHER;
    }
    MPI_Error_class(code, &class);
    if (is(mode, "complete"))
        MPI_Win_complete(win);
    else if (is(mode, "fence"))
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    else if (!is(mode, "start") && !is(mode, "post") && !is(mode, "wait") && !is(mode, "holder") && !is(mode, "lock_all") && !is(mode, "unlock_all") &&
             !is(mode, "both") && !is(mode, "freed") && !is(mode, "half") && !is(mode, "queue"))
        MPI_Win_unlock(1, win);
    MPI_Error_class(MPI_Win_free(&win), &freed);
    if (is(mode, "freed") && rank == 0)
        MPI_Send(mine, 0, MPI_INT, 2, 1, MPI_COMM_WORLD);
    const char *told = class == MPI_SUCCESS ? "nothing" : class == MPI_ERR_PROC_ABORTED ? "it is gone" : "else";
    printf("rank %d: %s; free: %s\n", rank, told, freed == MPI_ERR_PROC_ABORTED && win == MPI_WIN_NULL ? "it is gone" : "else");
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
