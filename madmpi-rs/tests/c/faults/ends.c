/* Ends in ways that the first argument names; rank 0 says what it was told. */
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* From now on no word reaches anybody, and only the exit status tells: standard error is full, or a pipe without a reader. */
static void mute(int full) {
    int ends[2];
    if (pipe(ends) || dup2(full ? open("/dev/full", O_WRONLY) : ends[1], 2) < 0 || close(ends[0]))
        exit(99);
}

static int is(const char *mode, const char *name) { return !strcmp(mode, name); }

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    int rank, value = 0, code = MPI_SUCCESS, class = -1;
    MPI_Comm dup;
    if (is(mode, "early"))
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int fatal = is(mode, "fatal") || is(mode, "mute fatal");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, fatal ? MPI_ERRORS_ARE_FATAL : MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, fatal ? MPI_ERRORS_ARE_FATAL : MPI_ERRORS_RETURN);
    /* All are there, and know each other. */
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    if (is(mode, "late")) {
        MPI_Finalize();
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    } else if (rank == 1) {
        if (!strncmp(mode, "mute", 4) || is(mode, "unread abort"))
            mute(!is(mode, "unread abort"));
        if (is(mode, "abort") || is(mode, "mute abort") || is(mode, "unread abort"))
            MPI_Abort(dup, 7);
        else if (is(mode, "zero"))
            MPI_Abort(dup, 0);
        else if (fatal)
            MPI_Send(&value, 1, MPI_INT, 1000, 0, MPI_COMM_WORLD);
        else if (is(mode, "killed"))
            raise(SIGKILL);
        exit(0); /* and does not finalize */
    } else if (is(mode, "collective")) {
        code = MPI_Comm_split(dup, 0, 0, &dup);
    } else if (is(mode, "any")) {
        code = MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 0, dup, MPI_STATUS_IGNORE);
    } else if (!is(mode, "finalize")) {
        code = MPI_Recv(&value, 1, MPI_INT, 1, 0, dup, MPI_STATUS_IGNORE);
    }
    MPI_Error_class(code, &class);
    printf("told: %s\n", class == MPI_SUCCESS ? "nothing" : class == MPI_ERR_PROC_ABORTED ? "it is gone" : "else");
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
