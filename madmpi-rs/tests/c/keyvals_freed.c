/* np: 1 */
/* A key that was freed while attributes have it is a key until the last of them is gone. */
#include "classes.h"
#include <mpi.h>
#include <stdio.h>

static int deleted;

static int on_comm(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)extra;
    deleted += *(int *)value;
    return MPI_SUCCESS;
}

static int on_type(MPI_Datatype type, int key, void *value, void *extra) {
    (void)type, (void)key, (void)extra;
    deleted += *(int *)value;
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    int key, freed, one = 1, ten = 10, flag, *value;
    MPI_Comm comm, copy;
    MPI_Datatype type, other;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);

    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, on_comm, &key, NULL);
    freed = key;
    MPI_Comm_set_attr(comm, key, &one);
    MPI_Comm_dup(comm, &copy);
    MPI_Comm_free_keyval(&freed);
    printf("invalid: %d\n", freed == MPI_KEYVAL_INVALID);
    printf("get: %d, ", class_of(MPI_Comm_get_attr(comm, key, &value, &flag)));
    printf("%d\n", flag && value == &one);
    printf("delete: %d, ", class_of(MPI_Comm_delete_attr(comm, key)));
    printf("%d\n", deleted);
    printf("get: %d, ", class_of(MPI_Comm_get_attr(comm, key, &value, &flag)));
    printf("%d\n", flag);
    printf("get of the copy: %d, ", class_of(MPI_Comm_get_attr(copy, key, &value, &flag)));
    printf("%d\n", flag && value == &one);
    MPI_Comm_free(&copy);
    printf("deleted: %d\n", deleted);

    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, on_type, &key, NULL);
    freed = key;
    MPI_Type_contiguous(3, MPI_INT, &type);
    MPI_Type_dup(type, &other);
    MPI_Type_set_attr(type, key, &ten);
    MPI_Type_set_attr(other, key, &one);
    MPI_Type_free_keyval(&freed);
    printf("get: %d, ", class_of(MPI_Type_get_attr(type, key, &value, &flag)));
    printf("%d\n", flag && value == &ten);
    printf("delete: %d, ", class_of(MPI_Type_delete_attr(type, key)));
    printf("%d\n", deleted);
    MPI_Type_free(&other);
    printf("deleted: %d\n", deleted);
    MPI_Type_free(&type);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
