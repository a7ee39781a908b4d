/* The class of an error, which programs compare. */
#include <mpi.h>

static int class_of(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class;
}
