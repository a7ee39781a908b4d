/* np: 1 */
/* Attributes of datatypes: copied to a duplicate, deleted with the type. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: not so: %s\n", __LINE__, #what); MPI_Abort(MPI_COMM_WORLD, 1); } } while (0)

/* The value is a datatype of its own. */
static int copy(MPI_Datatype type, int key, void *extra, void *in, void *out, int *flag) {
    MPI_Datatype *old = in, *new = malloc(sizeof *new);
    (void)type;
    (void)key;
    (void)extra;
    *flag = 1;
    *(MPI_Datatype **)out = new;
    printf("copied\n");
    return MPI_Type_dup(*old, new);
}

static int delete(MPI_Datatype type, int key, void *value, void *extra) {
    MPI_Datatype *old = value;
    int size, result;
    (void)key;
    (void)extra;
    MPI_Type_size(type, &size); /* it is still there */
    printf("deleted from a type of %d bytes\n", size);
    result = MPI_Type_free(old);
    free(old);
    return result;
}

int main(int argc, char **argv) {
    int types, flag;
    MPI_Datatype first, second, *value = malloc(sizeof *value), *found;
    MPI_Init(&argc, &argv);
    MPI_Type_create_keyval(copy, delete, &types, NULL);

    MPI_Type_contiguous(3, MPI_INT, &first);
    MPI_Type_dup(MPI_INT, value);
    MPI_Type_set_attr(first, types, value);
    MPI_Type_dup(first, &second);
    MPI_Type_get_attr(second, types, &found, &flag);
    CHECK(flag && found != value && *found != MPI_DATATYPE_NULL);
    MPI_Type_free(&second);
    CHECK(second == MPI_DATATYPE_NULL);

    MPI_Type_free(&first);
    CHECK(first == MPI_DATATYPE_NULL);
    MPI_Type_free_keyval(&types);
    printf("the end\n");
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
