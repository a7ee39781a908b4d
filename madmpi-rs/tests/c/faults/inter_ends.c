/* A process ends, and the others of two sides {0, 1} and {2, 3} call what the first argument names; each says what it was told.
 * The second argument is the process that ends; with a third one it does so inside the call, in which its leader waits for the
 * other side. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N 1000

static int is(const char *mode, const char *name) { return !strcmp(mode, name); }

static void alarmed(int signal) {
    (void)signal;
    _exit(0);
}

int main(int argc, char **argv) {
    const char *mode = argv[1];
    int victim = atoi(argv[2]), rank, side, code = MPI_SUCCESS, class;
    static int mine[2 * N], all[2 * N];
    int counts[2] = {N, N};
    MPI_Comm local, inter, other = MPI_COMM_NULL;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    side = rank / 2;
    MPI_Comm_split(MPI_COMM_WORLD, side, 0, &local);
    MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, 2 - 2 * side, 7, &inter);
    MPI_Comm_set_errhandler(local, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    int root = side == 1 ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
    int late = argc > 3, first = late && side == victim / 2;
    if (rank == victim && late) {
        signal(SIGALRM, alarmed);
        ualarm(200000, 0);
    } else if (rank == victim) {
        _exit(0);
    }
    if (!first)
        MPI_Recv(mine, 1, MPI_INT, victim, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (is(mode, "dup")) {
        code = MPI_Comm_dup(inter, &other);
    } else if (is(mode, "merge")) {
        code = MPI_Intercomm_merge(inter, side, &other);
    } else if (is(mode, "split")) {
        code = MPI_Comm_split(inter, 0, rank, &other);
    } else if (is(mode, "create")) {
        code = MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, 2 - 2 * side, 8, &other);
    } else if (is(mode, "disconnect")) {
        code = MPI_Comm_disconnect(&inter);
    } else if (is(mode, "bcast")) {
        code = MPI_Bcast(mine, N, MPI_INT, root, inter);
    } else if (is(mode, "reduce")) {
        code = MPI_Reduce(mine, all, N, MPI_INT, MPI_SUM, root, inter);
    } else if (is(mode, "allreduce")) {
        code = MPI_Allreduce(mine, all, N, MPI_INT, MPI_SUM, inter);
    } else if (is(mode, "reduce_scatter")) {
        code = MPI_Reduce_scatter(mine, all, counts, MPI_INT, MPI_SUM, inter);
    } else if (is(mode, "iallreduce")) {
        code = MPI_Iallreduce(mine, all, N, MPI_INT, MPI_SUM, inter, &request);
        if (code == MPI_SUCCESS)
            code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (is(mode, "again")) { /* the next one fails, too */
        MPI_Allreduce(mine, all, N, MPI_INT, MPI_SUM, inter);
        code = MPI_Allreduce(mine, all, N, MPI_INT, MPI_SUM, inter);
    }
    MPI_Error_class(code, &class);
    printf("rank %d: %s\n", rank, class == MPI_SUCCESS ? "nothing" : class == MPI_ERR_PROC_ABORTED ? "it is gone" : "else");
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
