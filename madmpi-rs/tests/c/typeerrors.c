/* np: 1, peers: no */
/* What is wrong with types and operators is said, by its class and in words; the other libraries have other classes. */
#include <mpi.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static void expect(const char *what, int code, int class) {
    char text[MPI_MAX_ERROR_STRING];
    int len;
    if (code != class) {
        printf("%s: %d instead of %d\n", what, code, class);
        return;
    }
    MPI_Error_string(code, text, &len);
    printf("%s: %s\n", what, strchr(text, ':') ? "told" : "not told");
}
#define EXPECT(call, class) expect(#call, call, class)

/* Of an attribute: says no at first. */
static int refuse(MPI_Datatype type, int key, void *value, void *extra) {
    (void)type, (void)key, (void)extra;
    return (*(int *)value)++ ? MPI_SUCCESS : MPI_ERR_ARG;
}

static void function(void *in, void *inout, int *len, MPI_Datatype *type) {
    (void)in, (void)inout, (void)len, (void)type;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Datatype type, freed, unknown = (MPI_Datatype)(size_t)0x2cc, bad[2] = {MPI_INT, MPI_DATATYPE_NULL};
    MPI_Op op, gone;
    int one = 1, minus = -1, position = 0, n, a[4], b[4];
    MPI_Aint place = 0;
    char bytes[8];
    MPI_Type_contiguous(2, MPI_INT, &type);
    freed = type;
    MPI_Type_free(&type);

    EXPECT(MPI_Type_size(MPI_DATATYPE_NULL, &n), MPI_ERR_TYPE);
    EXPECT(MPI_Type_size(freed, &n), MPI_ERR_TYPE);
    EXPECT(MPI_Type_size(unknown, &n), MPI_ERR_TYPE);
    EXPECT(MPI_Type_size(MPI_INT, NULL), MPI_ERR_ARG);
    EXPECT(MPI_Type_free(&freed), MPI_ERR_TYPE);
    type = MPI_INT;
    EXPECT(MPI_Type_free(&type), MPI_ERR_TYPE);
    type = MPI_DATATYPE_NULL;
    EXPECT(MPI_Type_commit(&type), MPI_ERR_TYPE);
    EXPECT(MPI_Type_contiguous(-1, MPI_INT, &type), MPI_ERR_COUNT);
    EXPECT(MPI_Type_contiguous(1, MPI_INT, NULL), MPI_ERR_ARG);
    EXPECT(MPI_Type_vector(1, -1, 1, MPI_INT, &type), MPI_ERR_COUNT);
    EXPECT(MPI_Type_indexed(1, &minus, &one, MPI_INT, &type), MPI_ERR_COUNT);
    EXPECT(MPI_Type_indexed(1, NULL, &one, MPI_INT, &type), MPI_ERR_ARG);
    EXPECT(MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 8}, bad, &type), MPI_ERR_TYPE);
    EXPECT(MPI_Type_contiguous_c((MPI_Count)1 << 62, MPI_INT, &type), MPI_ERR_COUNT);
    EXPECT(MPI_Type_create_resized(MPI_INT, LONG_MAX, 8, &type), MPI_ERR_COUNT);
    EXPECT(MPI_Type_create_subarray(1, (int[]){4}, (int[]){5}, (int[]){0}, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG);
    EXPECT(MPI_Type_create_subarray(1, (int[]){4}, (int[]){2}, (int[]){3}, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG);
    EXPECT(MPI_Type_create_subarray(1, (int[]){4}, (int[]){2}, (int[]){1}, 77, MPI_INT, &type), MPI_ERR_ARG);
    EXPECT(MPI_Type_create_darray(3, 0, 1, (int[]){9}, (int[]){MPI_DISTRIBUTE_BLOCK}, (int[]){2}, (int[]){3}, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG);
    EXPECT(MPI_Type_create_darray(4, 0, 1, (int[]){9}, (int[]){MPI_DISTRIBUTE_BLOCK}, (int[]){3}, (int[]){3}, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG);
    EXPECT(MPI_Type_create_f90_integer(99, &type), MPI_ERR_ARG);
    EXPECT(MPI_Type_create_f90_real(MPI_UNDEFINED, MPI_UNDEFINED, &type), MPI_ERR_ARG);
    EXPECT(MPI_Type_match_size(MPI_TYPECLASS_REAL, 5, &type), MPI_ERR_ARG);
    EXPECT(MPI_Type_get_contents(MPI_INT, 0, 0, 0, &n, &place, &type), MPI_ERR_TYPE);
    MPI_Type_vector(2, 1, 2, MPI_INT, &type);
    EXPECT(MPI_Type_get_contents(type, 2, 0, 1, a, &place, bad), MPI_ERR_ARG);
    EXPECT(MPI_Send(a, 1, type, 0, 0, MPI_COMM_SELF), MPI_ERR_TYPE);
    MPI_Type_free(&type);
    MPI_Type_vector_c(2, 1, 2, MPI_INT, &type);
    EXPECT(MPI_Type_get_envelope(type, &n, &n, &n, &n), MPI_ERR_TYPE);
    MPI_Type_free(&type);

    EXPECT(MPI_Pack(a, 3, MPI_INT, bytes, sizeof bytes, &position, MPI_COMM_SELF), MPI_ERR_ARG);
    EXPECT(MPI_Pack(a, 1, MPI_INT, bytes, sizeof bytes, &position, MPI_COMM_NULL), MPI_ERR_COMM);
    EXPECT(MPI_Pack(NULL, 1, MPI_INT, bytes, sizeof bytes, &position, MPI_COMM_SELF), MPI_ERR_BUFFER);
    EXPECT(MPI_Unpack(bytes, sizeof bytes, &position, a, 3, MPI_INT, MPI_COMM_SELF), MPI_ERR_TRUNCATE);
    EXPECT(MPI_Pack_size(INT_MAX, MPI_INT, MPI_COMM_SELF, &n), MPI_SUCCESS);
    if (n != MPI_UNDEFINED)
        printf("a size that does not fit: %d\n", n);
    position = 9;
    EXPECT(MPI_Pack(a, 0, MPI_INT, bytes, sizeof bytes, &position, MPI_COMM_SELF), MPI_ERR_ARG);
    EXPECT(MPI_Pack_external("internal", a, 1, MPI_INT, bytes, sizeof bytes, &place), MPI_ERR_UNSUPPORTED_DATAREP);
    long large = 1L << 40;
    EXPECT(MPI_Pack_external("external32", &large, 1, MPI_LONG, bytes, sizeof bytes, &place), MPI_ERR_CONVERSION);

    /* The function of an attribute says no: the type is still there. */
    int key, refusals = 0;
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, refuse, &key, NULL);
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_set_attr(type, key, &refusals);
    EXPECT(MPI_Type_free(&type), MPI_ERR_ARG);
    EXPECT(MPI_Type_free(&type), MPI_SUCCESS);
    MPI_Type_free_keyval(&key);

    MPI_Op_create(function, 1, &op);
    gone = op;
    MPI_Op_free(&op);
    EXPECT(MPI_Op_free(&gone), MPI_ERR_OP);
    op = MPI_SUM;
    EXPECT(MPI_Op_free(&op), MPI_ERR_OP);
    EXPECT(MPI_Op_create(NULL, 1, &op), MPI_ERR_ARG);
    EXPECT(MPI_Op_commutative(MPI_OP_NULL, &n), MPI_ERR_OP);
    EXPECT(MPI_Reduce_local(a, b, 1, MPI_DOUBLE, MPI_BAND), MPI_ERR_OP);
    EXPECT(MPI_Reduce_local(a, b, 1, MPI_INT, MPI_MINLOC), MPI_ERR_OP);
    EXPECT(MPI_Reduce_local(a, b, 1, MPI_CHARACTER, MPI_SUM), MPI_ERR_OP);
    EXPECT(MPI_Reduce_local(a, b, 1, MPI_INT, MPI_REPLACE), MPI_ERR_OP);
    EXPECT(MPI_Reduce_local(MPI_IN_PLACE, b, 1, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
    EXPECT(MPI_Reduce_local(a, b, -1, MPI_INT, MPI_SUM), MPI_ERR_COUNT);
    EXPECT(MPI_Reduce_local(a, b, 1, MPI_DATATYPE_NULL, MPI_SUM), MPI_ERR_TYPE);
    MPI_Finalize();
    return 0;
}
