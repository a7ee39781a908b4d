/* np: 1, peers: no */
/* Generalized requests whose functions fail: the code of the one that is called last counts. (Open MPI 4.1 and MPICH 4.0 give the first one's.) */
#include <mpi.h>
#include <stdio.h>

static int query(void *state, MPI_Status *status) {
    (void)state;
    MPI_Status_set_elements(status, MPI_INT, 0);
    MPI_Status_set_cancelled(status, 0);
    return MPI_ERR_ARG;
}

static int release(void *state) {
    (void)state;
    return MPI_ERR_IO;
}

static int cancel(void *state, int done) {
    (void)state, (void)done;
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    MPI_Request request;
    MPI_Status status;
    int code, class;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Grequest_start(query, release, cancel, NULL, &request);
    MPI_Grequest_complete(request);
    MPI_Error_class(MPI_Wait(&request, &status), &class);
    printf("wait: %d\n", class == MPI_ERR_IO);
    MPI_Grequest_start(query, release, cancel, NULL, &request);
    MPI_Grequest_complete(request);
    code = MPI_Waitall(1, &request, &status);
    MPI_Error_class(status.MPI_ERROR, &class);
    printf("waitall: %d %d\n", code == MPI_ERR_IN_STATUS, class == MPI_ERR_IO);
    MPI_Finalize();
    return 0;
}
