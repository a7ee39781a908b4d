/* np: 1 */
/* A call without an object has WORLD's error handler, as MPI-3 programs expect, until SELF has one of its own. */
#include <mpi.h>
#include <stdio.h>

static int told;

static void tell(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    MPI_Error_class(*code, &told);
}

static int is_bad(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class == MPI_ERR_COUNT || class == MPI_ERR_ARG;
}

int main(int argc, char **argv) {
    MPI_Datatype type;
    MPI_Errhandler handler;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    printf("returned: %d\n", is_bad(MPI_Type_contiguous(-1, MPI_INT, &type)));
    MPI_Comm_create_errhandler(tell, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    printf("returned: %d\n", is_bad(MPI_Type_contiguous(-1, MPI_INT, &type)));
    printf("told: %d\n", is_bad(told));
    MPI_Errhandler_free(&handler);
    MPI_Finalize();
    return 0;
}
