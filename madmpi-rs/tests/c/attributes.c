/* np: 2, peers: openmpi */
/* Attributes of communicators: copied and deleted by the program's functions, the last one set deleted first. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: not so: %s\n", __LINE__, #what); MPI_Abort(MPI_COMM_WORLD, 1); } } while (0)

static int rank, refused;

static int copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag) {
    (void)comm;
    (void)key;
    *(void **)out = (char *)in + *(int *)extra;
    *flag = 1;
    return MPI_SUCCESS;
}

static int say(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm;
    (void)key;
    (void)extra;
    if (rank == 0)
        printf("deleted %d\n", (int)(size_t)value);
    return MPI_SUCCESS;
}

static int refuse(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm;
    (void)key;
    (void)value;
    (void)extra;
    return refused++ ? MPI_SUCCESS : MPI_ERR_ARG;
}

static int say_type(MPI_Datatype type, int key, void *value, void *extra) {
    (void)type;
    return say(MPI_COMM_NULL, key, value, extra);
}

static void *get(MPI_Comm comm, int key, int *flag) {
    void *value = NULL;
    MPI_Comm_get_attr(comm, key, &value, flag);
    return value;
}

int main(int argc, char **argv) {
    int plus = 10, plain, same, counted, refusing, gone, flag, *number;
    MPI_Comm dup, again;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    number = get(MPI_COMM_WORLD, MPI_TAG_UB, &flag);
    CHECK(flag && *number >= 32767);
    number = get(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &flag);
    CHECK(!flag || *number == 0 || *number == 1);
    number = get(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &flag);
    CHECK(flag && *number >= MPI_ERR_LASTCODE);

    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, say, &plain, NULL);
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &same, NULL);
    MPI_Comm_create_keyval(copy, say, &counted, &plus);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuse, &refusing, NULL);
    MPI_Comm_create_keyval(copy, say, &gone, &plus);

    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    get(dup, plain, &flag);
    CHECK(!flag);
    MPI_Comm_set_attr(dup, plain, (void *)1);
    MPI_Comm_set_attr(dup, same, &plus);
    MPI_Comm_set_attr(dup, counted, (void *)2);
    MPI_Comm_set_attr(dup, gone, (void *)3);
    CHECK(get(dup, plain, &flag) == (void *)1 && flag);

    /* A key that is freed lives on in what has it. */
    MPI_Comm_free_keyval(&gone);
    CHECK(gone == MPI_KEYVAL_INVALID);

    MPI_Comm_dup(dup, &again);
    get(again, plain, &flag);
    CHECK(!flag);
    CHECK(get(again, same, &flag) == &plus && flag);
    CHECK(get(again, counted, &flag) == (void *)12 && flag);
    if (rank == 0)
        printf("the duplicate goes\n");
    MPI_Comm_free(&again);

    /* Another value: the old one is deleted. */
    MPI_Comm_set_attr(dup, plain, (void *)4);
    MPI_Comm_delete_attr(dup, counted);
    get(dup, counted, &flag);
    CHECK(!flag);
    MPI_Comm_delete_attr(dup, plain);
    if (rank == 0)
        printf("the first one goes\n");

    /* A function that says no keeps the communicator. */
    MPI_Comm_set_errhandler(dup, MPI_ERRORS_RETURN);
    MPI_Comm_set_attr(dup, refusing, NULL);
    CHECK(MPI_Comm_free(&dup) != MPI_SUCCESS);
    CHECK(dup != MPI_COMM_NULL);
    MPI_Comm_free(&dup);
    CHECK(dup == MPI_COMM_NULL);

    /* Types have attributes too. */
    int typed;
    void *kept;
    MPI_Datatype type, twin;
    MPI_Type_create_keyval(MPI_TYPE_DUP_FN, say_type, &typed, NULL);
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_set_attr(type, typed, (void *)50);
    MPI_Type_dup(type, &twin);
    MPI_Type_set_attr(type, typed, (void *)51);
    MPI_Type_get_attr(twin, typed, &kept, &flag);
    CHECK(flag && kept == (void *)50);
    MPI_Type_free(&type);
    MPI_Type_free(&twin);
    MPI_Type_free_keyval(&typed);

    MPI_Comm_free_keyval(&refusing);
    MPI_Comm_free_keyval(&same);
    MPI_Comm_free_keyval(&counted);
    MPI_Comm_set_attr(MPI_COMM_SELF, plain, (void *)100);
    int other;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, say, &other, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, other, (void *)101);
    MPI_Comm_free_keyval(&plain);
    MPI_Comm_free_keyval(&other);
    if (rank == 0)
        printf("the end\n");
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
