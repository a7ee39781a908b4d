/* np: 2, peers: mpich */
/* One buffer as both arguments of a collective is an error of the argument; MPI_IN_PLACE says what is meant. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int rank;

static void say(const char *what, int code) {
    int class, length;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    if (rank == 0)
        printf("%s: %s\n", what, class == MPI_ERR_BUFFER ? "a buffer" : code == MPI_SUCCESS ? "none" : text);
}

int main(int argc, char **argv) {
    int x[4] = {1, 2, 3, 4}, y[4], two[2] = {1, 1}, from[2] = {0, 2};
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    say("allreduce", MPI_Allreduce(x, x, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    say("scan", MPI_Scan(x, x, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    say("exscan", MPI_Exscan(x, x, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    say("reduce_scatter_block", MPI_Reduce_scatter_block(x, x, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    say("alltoall", MPI_Alltoall(x, 1, MPI_INT, x, 1, MPI_INT, MPI_COMM_WORLD));
    if (rank == 0) {
        say("iallreduce", MPI_Iallreduce(x, x, 2, MPI_INT, MPI_SUM, MPI_COMM_SELF, &request));
        say("reduce", MPI_Reduce(x, x, 2, MPI_INT, MPI_SUM, 0, MPI_COMM_SELF));
    }
    /* No elements, or others that lie between, are none. */
    say("nothing", MPI_Allreduce(x, x, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    say("in place", MPI_Allreduce(MPI_IN_PLACE, x, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    say("between", MPI_Alltoallv(x, two, from, MPI_INT, x + 1, two, from, MPI_INT, MPI_COMM_WORLD));
    if (rank == 0)
        printf("%d %d %d %d\n", x[0], x[1], x[2], x[3]);
    /* An empty buffer has no bytes in common with the other one, wherever it points. */
    int all_to_one[2] = {0, 3}, none[2] = {0, 0}, starts[2] = {0, 1}, sums[3];
    memcpy(y, x, sizeof y);
    say("scatter to one", MPI_Reduce_scatter(y, rank ? sums : &y[1], all_to_one, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    none[1] = 2;
    say("gather of one", MPI_Gatherv(rank ? two : &y[2], 2 * rank, MPI_INT, y, none, starts, MPI_INT, 0, MPI_COMM_WORLD));
    if (rank == 0)
        printf("%d %d\n", y[1], y[2]);
    say("in place of the result", MPI_Allreduce(x, MPI_IN_PLACE, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    say("apart", MPI_Allreduce(x, y, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    MPI_Finalize();
    return 0;
}
