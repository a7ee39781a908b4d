/* np: 1, peers: no */
/* A copy function that fails: there is no duplicate, and its handle says so. */
#include <mpi.h>
#include <stdio.h>

static int deleted;

static int agree(MPI_Datatype type, int key, void *extra, void *in, void *out, int *flag) {
    (void)type, (void)key, (void)extra;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static int refuse(MPI_Datatype type, int key, void *extra, void *in, void *out, int *flag) {
    (void)type, (void)key, (void)extra, (void)in, (void)out, (void)flag;
    return MPI_ERR_INTERN;
}

static int count(MPI_Datatype type, int key, void *value, void *extra) {
    (void)type, (void)key, (void)value, (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    int first, second, code;
    MPI_Datatype type, twin = MPI_INT;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Type_create_keyval(agree, count, &first, NULL);
    MPI_Type_create_keyval(refuse, count, &second, NULL);
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_set_attr(type, first, NULL);
    MPI_Type_set_attr(type, second, NULL);
    code = MPI_Type_dup(type, &twin);
    printf("refused: %d, null: %d, deleted: %d\n", code == MPI_ERR_INTERN, twin == MPI_DATATYPE_NULL, deleted);
    MPI_Type_delete_attr(type, second);
    code = MPI_Type_dup(type, &twin);
    printf("made: %d %d\n", code == MPI_SUCCESS, twin != MPI_DATATYPE_NULL);
    MPI_Type_free(&twin);
    MPI_Type_free(&type);
    MPI_Type_free_keyval(&first);
    MPI_Type_free_keyval(&second);
    MPI_Finalize();
    return 0;
}
