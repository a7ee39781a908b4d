/* np: 1 */
/* The string of an error code of the program's own is the one that it added, whatever happened since. */
#include <mpi.h>
#include <stdio.h>

static int code;

static int refuses(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    return code;
}

int main(int argc, char **argv) {
    int class, key, length, none = 0;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Comm comm;
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Add_error_class(&class);
    MPI_Add_error_code(class, &code);
    MPI_Add_error_string(class, "a class of our own");
    MPI_Add_error_string(code, "out of coffee");
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuses, &key, &none);
    MPI_Comm_set_attr(comm, key, &none);
    MPI_Comm_delete_attr(comm, key);
    MPI_Comm_call_errhandler(comm, code);
    MPI_Error_string(code, text, &length);
    printf("%s (%d)\n", text, length);
    MPI_Error_string(class, text, &length);
    printf("%s (%d)\n", text, length);
    code = MPI_SUCCESS;
    MPI_Comm_delete_attr(comm, key);
    MPI_Comm_free_keyval(&key);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
